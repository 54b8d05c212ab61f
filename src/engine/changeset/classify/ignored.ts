import { copyFile, lstat, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { tryGit, type GitOptions } from '../../base/git.ts'
import { makeScratch } from '../../base/scratch.ts'
import { fromBytes, fromText, joinPath, parentOf, rootPath, toBytes, type BytePath } from '../bytePath.ts'
import { userGit } from '../commits/userGit.ts'

/** A repository to ask about names: where it stands and what it is given. */
type Asked = { readonly args: readonly string[]; readonly options: GitOptions }
type Beyond = { readonly link: BytePath; readonly path: BytePath }
const mostRefusals = 16

/**
 * Which paths the *base's* ignore files name: the agent's own version of them has no say, or it could hide its
 * work from "approve all". So do the user's own for all his repositories. Tracked files are never ignored. Works without git, by the same rules. What git will not
 * speak about counts as ignored: an agent could otherwise land `node_modules` by a name git chokes on.
 */
export async function ignoredPaths(
  base: string,
  ownGitDir: string,
  paths: readonly BytePath[],
): Promise<ReadonlySet<BytePath>> {
  if (paths.length === 0) return new Set()
  const repository = await enclosingRepository(base)
  const top = repository ?? base
  const prefix = fromText(relative(top, base))
  const named = new Map(paths.map((path) => [joinPath(prefix, path), path]))
  const usersFile = await usersExcludes(top)
  const args = ['-c', `core.excludesFile=${usersFile}`]
  const byName: Asked = { args: [...args, '--work-tree', top], options: { cwd: top, gitDir: ownGitDir } }
  const asked = repository !== null && (await isReadable(top)) ? { args, options: { cwd: top } } : byName
  const linkOf = linkFinder(top)
  const plain: BytePath[] = []
  const beyond: Beyond[] = []
  for (const path of named.keys()) {
    const link = await linkOf(parentOf(path))
    if (link === null) plain.push(path)
    else beyond.push({ link, path })
  }
  // Against the index git compares every path with every entry: minutes in a large repository. By rules alone
  // first, and the index only if something is left to ask it about.
  const found = [...(await namedBy(asked, plain)), ...(await namedBeyond(top, ownGitDir, beyond, usersFile))]
  if (found.length === 0) return new Set()
  const tracked = new Set(
    asked === byName ? [] : fromBytes((await tryGit(['ls-files', '-z'], asked.options)).stdout).split('\0'),
  )
  return new Set(found.filter((path) => !tracked.has(path)).map((path) => named.get(path) ?? path))
}

/** Asks git by name alone. It stops at a path it does not like: those are stepped over, and count as named. */
async function namedBy({ args, options }: Asked, paths: readonly BytePath[]): Promise<BytePath[]> {
  const found: BytePath[] = []
  let rest = paths
  for (let refused = 0; rest.length > 0; refused += 1) {
    if (refused > mostRefusals) return [...found, ...rest]
    const { stdout } = await tryGit([...args, 'check-ignore', '--no-index', '-v', '-n', '-z', '--stdin'], {
      ...options,
      // `:(glob)x` is a file of that name, and no pattern.
      input: Buffer.concat(rest.map((path) => toBytes(`./${path}\0`))),
    })
    // Four fields for each path, the first three of them empty where no rule speaks about it.
    const fields = fromBytes(stdout).split('\0')
    const answers = Math.floor(fields.length / 4)
    for (let at = 0; at < answers; at += 1) {
      const [source = '', , pattern = '', path = ''] = fields.slice(at * 4, at * 4 + 4)
      if (source !== '' && !pattern.startsWith('!')) found.push(path.slice('..'.length) as BytePath)
    }
    if (answers < rest.length) found.push(rest[answers] as BytePath)
    rest = rest.slice(answers + 1)
  }
  return found
}

/**
 * Git refuses to speak about what lies beyond a link of the work tree, and an agent may have made a folder of one.
 * So it is asked in an empty tree with the same rules: there are none below a link.
 */
async function namedBeyond(
  top: string,
  ownGitDir: string,
  beyond: readonly Beyond[],
  usersFile: string,
): Promise<BytePath[]> {
  if (beyond.length === 0) return []
  const scratch = await makeScratch('orangery-ignored-')
  const inside = (folder: string, path: BytePath) => Buffer.concat([Buffer.from(`${folder}/`), toBytes(path)])
  try {
    const tree = join(scratch, 'tree')
    const copied = new Set<BytePath>()
    for (const { link } of beyond) {
      for (let at = parentOf(link); !copied.has(at); at = parentOf(at)) {
        copied.add(at)
        await mkdir(inside(tree, at), { recursive: true })
        const rules = joinPath(at, '.gitignore')
        const stat = await lstat(inside(top, rules)).catch(() => null)
        if (stat?.isFile() === true) await copyFile(inside(top, rules), inside(tree, rules))
      }
    }
    const excludes = await tryGit(['rev-parse', '--git-path', 'info/exclude'], { cwd: top })
    const ownFile = excludes.code === 0 ? [resolve(top, excludes.stdout.toString().trim())] : []
    // The later rule counts, and those of the one repository come before those of all.
    const rules = await Promise.all([usersFile, ...ownFile].map((each) => readFile(each).catch(() => '')))
    const file = join(scratch, 'rules')
    await writeFile(file, Buffer.concat(rules.flatMap((each) => [Buffer.from(each), Buffer.from('\n')])))
    const args = ['-c', `core.excludesFile=${file}`, '--work-tree', tree]
    return await namedBy(
      { args, options: { cwd: tree, gitDir: ownGitDir } },
      beyond.map(({ path }) => path),
    )
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/** Where the user says what he ignores everywhere: as his settings say, or where git looks if they do not. */
async function usersExcludes(top: string): Promise<string> {
  const { HOME: home = '', XDG_CONFIG_HOME: given = '' } = process.env
  const config = given || (home && join(home, '.config'))
  const usual = config && join(config, 'git', 'ignore')
  const asked = ['config', '--type=path', '--get', 'core.excludesFile']
  const file = await userGit(asked, { cwd: top }).catch(() => usual)
  return file === '' ? '/dev/null' : resolve(top, file)
}

/** The link of the base that a folder lies beyond, or is; null for none. */
function linkFinder(top: string): (folder: BytePath) => Promise<BytePath | null> {
  const known = new Map<BytePath, BytePath | null>([[rootPath, null]])
  const linkOf = async (folder: BytePath): Promise<BytePath | null> => {
    const before = known.get(folder)
    if (before !== undefined) return before
    const above = await linkOf(parentOf(folder))
    const at = Buffer.concat([Buffer.from(`${top}/`), toBytes(folder)])
    const stat = above === null ? await lstat(at).catch(() => null) : null
    const found = above ?? (stat?.isSymbolicLink() === true ? folder : null)
    known.set(folder, found)
    return found
  }
  return linkOf
}

async function isReadable(top: string): Promise<boolean> {
  return (await tryGit(['rev-parse', '--show-toplevel'], { cwd: top })).code === 0
}

async function enclosingRepository(start: string): Promise<string | null> {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = await lstat(join(folder, '.git')).catch(() => null)
    if (found !== null) return folder
    if (folder === dirname(folder)) return null
  }
}
