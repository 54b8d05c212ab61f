import { nameOf, type BytePath } from '../bytePath.ts'

/**
 * Files that make programs run code or agents obey. An agent that could slip one in with "approve all" would
 * own the next shell, editor or CI run. Compared without case: file systems of macOS do not tell them apart.
 */
const words = (text: string) => text.trim().split(/\s+/)
const protectedNames = new Set(
  words(`
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc
    .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login config.fish .bash_functions
    .yashrc .yash_profile .xonshrc rc.xsh rc.elv config.nu env.nu login.nu
    profile.ps1 microsoft.powershell_profile.ps1 microsoft.vscode_profile.ps1
    .xprofile .xinitrc .xsessionrc .pam_environment .envrc .direnvrc
    .vimrc .exrc .nvimrc .nvim.lua .emacs .dir-locals.el .gdbinit .lldbinit .tmux.conf .screenrc
    .mcp.json .claude.json agents.md agents.override.md claude.md claude.local.md gemini.md
    copilot-instructions.md .cursorrules .windsurfrules .clinerules .goosehints
    .aider.conf.yml .aider.conf.yaml opencode.json opencode.jsonc .orangery.json
    .gitattributes .gitmodules .gitconfig authorized_keys
    .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs bunfig.toml pip.conf .bazelrc
    mise.toml .mise.toml mise.local.toml .mise.local.toml
    devcontainer.json .devcontainer.json
    .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml
    lefthook.yml lefthook.yaml lefthook.toml .lefthook.yml .lefthook.yaml
    lefthook-local.yml lefthook-local.yaml .lefthook-local.yml .lefthook-local.yaml
    .gitlab-ci.yml .gitlab-ci.yaml .travis.yml azure-pipelines.yml azure-pipelines.yaml
    jenkinsfile .drone.yml .drone.yaml .woodpecker.yml .woodpecker.yaml
    bitbucket-pipelines.yml appveyor.yml .appveyor.yml .cirrus.yml .cirrus.star
    cloudbuild.yaml cloudbuild.yml buildspec.yml buildspec.yaml codemagic.yaml wercker.yml bitrise.yml
    .scrutinizer.yml .build.yml head
  `),
)
/** Folders, and files that are told only by the folder they lie in. */
const protectedFolders = words(`
  .vscode .idea .zed .fleet .claude .cursor .codex .gemini .windsurf .opencode .roo .kiro .junie .aider
  .agency .husky .githooks .devcontainer .ssh .mvn
  .github/workflows .github/actions .gitea/workflows .forgejo/workflows .gitlab/ci
  .circleci .buildkite .woodpecker .teamcity .semaphore .tekton .ci .builds .harness
  .bashrc.d .zshrc.d .oh-my-zsh .config/bash .config/zsh .config/nushell .config/powershell .config/elvish .config/xonsh
  .config/git .config/fish .config/direnv .config/mise .config/autostart .config/systemd
  fish/conf.d fish/functions .cargo/config.toml .cargo/config .yarn/releases .yarn/plugins
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

/** Whether a path is the upper part of a protected one: what `.github` points to holds the workflows. */
export function leadsToProtected(root: string, path: BytePath, added: readonly string[] = []): boolean {
  const framed = `${root.toLowerCase()}/${path.toLowerCase()}`
  if (leadingParts.some((part) => framed.endsWith(part))) return true
  return added.some((pattern) => pattern.replace(/^\.?\//, '').startsWith(`${path}/`))
}
const leadingParts = protectedFolders.flatMap((folder) => {
  const names = folder.split('/')
  return names.slice(1).map((_, at) => `/${names.slice(0, at + 1).join('/')}`)
})

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
