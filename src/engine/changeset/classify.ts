import { nameOf, parentOf, type BytePath } from './bytePath.ts'

/**
 * Files that make programs run code or agents obey. An agent that could slip one in with "approve all" would
 * own the next shell, editor or CI run. Compared without case: file systems of macOS do not tell them apart.
 */
const words = (text: string) => text.trim().split(/\s+/)
const protectedNames = new Set(
  words(`
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc
    .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login config.fish
    .xprofile .xinitrc .xsessionrc .pam_environment .envrc .mcp.json agents.md claude.md
    gemini.md .orangery.json .cursorrules .gitattributes .gitmodules .gitconfig .npmrc
    .yarnrc .yarnrc.yml .pnpmfile.cjs devcontainer.json .devcontainer.json
    .pre-commit-config.yaml lefthook.yml .lefthook.yml .gitlab-ci.yml .travis.yml
    azure-pipelines.yml jenkinsfile .drone.yml .woodpecker.yml bitbucket-pipelines.yml
    appveyor.yml .appveyor.yml .cirrus.yml head
  `),
)
const protectedFolders = words(`
  .vscode .idea .claude .cursor .codex .gemini .agency .husky .devcontainer
  .github/workflows .github/actions .gitea/workflows .forgejo/workflows .gitlab/ci
  .circleci .buildkite .woodpecker .ci
`)

/**
 * By name alone; `package.json` is looked into by `hasChangedScripts`. The root's own path counts, or a root
 * at `.github` would make `workflows/ci.yml` an ordinary file. Added patterns are relative to the root.
 * `HEAD` is what makes a folder a repository: two changesets could each bring half of one.
 */
export function isProtectedPath(root: string, path: BytePath, added: readonly string[] = []): boolean {
  const lower = path.toLowerCase()
  if (protectedNames.has(nameOf(lower as BytePath))) return true
  const framed = `${root.toLowerCase()}/${lower}/`
  if (protectedFolders.some((folder) => framed.includes(`/${folder}/`))) return true
  return added.some((pattern) => matchesPattern(path, pattern))
}

/** `*` and `?` stay within a name, `**` does not; a pattern without `/` is a name anywhere, a folder covers all in it. */
function matchesPattern(path: BytePath, pattern: string): boolean {
  const bytes = Buffer.from(pattern.replace(/^\.?\/|\/$/g, ''), 'utf8').toString('latin1')
  const source = bytes.replaceAll(/\*\*|[*?]|[.+^${}()|[\]\\]/g, (token) => {
    if (token === '**') return '.*'
    if (token === '*') return '[^/]*'
    return token === '?' ? '[^/]' : `\\${token}`
  })
  return new RegExp(`^${bytes.includes('/') ? '' : '(?:.*/)?'}${source}(?:/.*)?$`, 'is').test(path)
}

export function isPackageFile(path: BytePath): boolean {
  return nameOf(path).toLowerCase() === 'package.json'
}

/** Scripts run on install and by name; what cannot be read is treated as changed. */
export function hasChangedScripts(base: PackageContent, result: PackageContent): boolean {
  const before = scriptsOf(base)
  const after = scriptsOf(result)
  return before === null || after === null || before !== after
}
/** Null: there is none. A link, a folder or a file too large to look into is `unreadable`, not "no scripts". */
export type PackageContent = Buffer | 'unreadable' | null
function scriptsOf(content: PackageContent): string | null {
  if (content === null) return '{}'
  if (content === 'unreadable') return null
  try {
    const parsed: unknown = JSON.parse(content.toString('utf8'))
    if (typeof parsed !== 'object' || parsed === null) return null
    const { scripts = {} } = parsed as { scripts?: unknown }
    return JSON.stringify(scripts)
  } catch {
    return null
  }
}

/** The part of a path up to and with a `.git`, in any case; null when there is none. */
export function gitPartOf(path: BytePath): BytePath | null {
  const names = path.split('/')
  const at = names.findIndex((name) => name.toLowerCase() === '.git')
  return at === -1 ? null : (names.slice(0, at + 1).join('/') as BytePath)
}

/** Our own markers; git does not see them and neither does a review. */
export function isMarker(path: BytePath): boolean {
  return /(^|\/)\.agency(\/(SANDBOX_MARKER|INTEGRATION_MARKER))?$/.test(path)
}

/**
 * Where a link leads, by its text and by the links on the way. Null: it stays within the roots. `linkAt` tells
 * the target of a link inside a root, or null for anything else.
 */
export async function leavesRoots(
  link: { readonly root: string; readonly path: BytePath; readonly target: string },
  roots: readonly { readonly name: string; readonly paths: readonly string[] }[],
  linkAt: (root: string, path: BytePath) => Promise<string | null>,
): Promise<string | null> {
  let root: string = link.root
  let at = parentOf(link.path).split('/').filter(Boolean)
  let pending = link.target
  for (let hops = 0; hops < 40; hops += 1) {
    if (pending.startsWith('/')) {
      const home = roots
        .flatMap((each) =>
          each.paths.map((path) => ({ name: each.name, path: Buffer.from(path).toString('latin1') })),
        )
        .find(({ path }) => pending === path || pending.startsWith(`${path}/`))
      if (home === undefined) return 'a link to an absolute path outside the roots never lands'
      root = home.name
      at = []
      pending = pending.slice(home.path.length)
    }
    const names = pending.split('/').filter((name) => name !== '' && name !== '.')
    let next: string | null = null
    while (names.length > 0) {
      const name = names.shift() ?? ''
      if (name === '..') {
        if (at.length === 0) return 'a link that leads out of its root never lands'
        at.pop()
        continue
      }
      const here = [...at, name].join('/') as BytePath
      const target = await linkAt(root, here)
      if (target !== null) {
        next = [target, ...names].join('/')
        break
      }
      at.push(name)
    }
    if (next === null) return null
    pending = next
  }
  return 'a link that leads through too many links never lands'
}
