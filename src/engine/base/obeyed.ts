import { readdir, readlink, realpath, stat } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative } from 'node:path'
import { run } from './process.ts'

/** As many as the kernel follows. */
const mostLinks = 40

/** A path as it is written, every link on the way to what it means, and that itself. */
async function waysTo(path: string): Promise<readonly string[]> {
  const seen = new Set([path])
  let done = '/'
  let rest = path.split('/')
  for (let links = 0; rest.length > 0 && links <= mostLinks;) {
    const [name = '', ...after] = rest
    const at = join(done, name)
    const target = name === '..' ? null : await readlink(at).catch(() => null)
    rest = target === null ? after : [...target.split('/'), ...after]
    if (target === null) done = at
    else {
      links += 1
      seen.add(at)
      if (isAbsolute(target)) done = '/'
    }
  }
  return [...seen.add(done)]
}

type Obeyed = { readonly folders: readonly string[]; readonly files: readonly string[] }

/**
 * The user's own files that we obey: config, trust and agent cards, under every name and behind every link. Whoever
 * writes one of them can widen himself. (escape: config-behind-a-link)
 */
async function obeyed(configDir: string): Promise<Obeyed> {
  const cards = join(configDir, 'agents')
  const names = await readdir(cards).catch(() => [] as string[])
  const files = [
    ...['config.json', 'trust.json'].map((name) => join(configDir, name)),
    ...names.filter((name) => name.endsWith('.json')).map((name) => join(cards, name)),
  ]
  const all = async (paths: readonly string[]) => [...new Set((await Promise.all(paths.map(waysTo))).flat())]
  const [found, folders] = await Promise.all([all(files), all([configDir, cards])])
  return { folders, files: found }
}

const isWithin = (path: string, folder: string): boolean => {
  const way = relative(folder, path)
  return way === '' || !(way === '..' || way.startsWith('../') || isAbsolute(way))
}

const identityOf = (path: string): Promise<string | null> =>
  stat(path).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => null,
  )

/** The same folder by another mount of it. */
async function isBelowMount(path: string, root: string): Promise<boolean> {
  const wanted = await identityOf(root)
  if (wanted === null) return false
  for (let at = path; at !== dirname(at); at = dirname(at)) if ((await identityOf(at)) === wanted) return true
  return false
}

/** What of our own config whoever writes a folder could change; null: nothing. */
export async function configInReach(root: string, configDir: string): Promise<string | null> {
  const roots = [root, await realpath(root).catch(() => root)]
  const { folders, files } = await obeyed(configDir)
  for (const path of [...folders, ...files]) {
    if (roots.some((each) => isWithin(path, each))) return path
    if (await isBelowMount(path, root)) return path
  }
  return folders.find((folder) => roots.some((each) => isWithin(each, folder))) ?? null
}

/** The same by a second name of the file itself, which only a look at every file finds. */
export async function configLinkedBelow(root: string, configDir: string): Promise<string | null> {
  for (const file of (await obeyed(configDir)).files) {
    const facts = await stat(file).catch(() => null)
    if (facts === null || !facts.isFile() || facts.nlink < 2) continue
    const tests = ['-samefile', file, '-print0', '-quit']
    const found = await run('find', [root, '-xdev', ...tests], { cwd: '/', timeoutMs: 10_000 })
    const [other = ''] = found.stdout.toString().split('\0')
    if (other !== '') return other
    // Not looked through in time: it may be there.
    if (found.code !== 0 && found.code !== 1) return file
  }
  return null
}

/** The same as paths below a root that need a decision of their own at review; all of it where it is our folder. */
export async function obeyedBelow(root: string, configDir: string): Promise<readonly string[]> {
  const { folders, files } = await obeyed(configDir)
  return namesBelow(root, folders, files)
}

/** A folder, and every link on the way to it, as paths below a root; all of that where it lies in the folder. */
export async function waysBelow(root: string, folder: string): Promise<readonly string[]> {
  return namesBelow(root, await waysTo(folder), [])
}

async function namesBelow(
  root: string,
  folders: readonly string[],
  files: readonly string[],
): Promise<readonly string[]> {
  const roots = [...new Set([root, await realpath(root).catch(() => root)])]
  if (folders.some((folder) => roots.some((each) => isWithin(each, folder)))) return ['**']
  const below = roots.flatMap((each) =>
    [...folders, ...files].filter((path) => isWithin(path, each)).map((path) => relative(each, path)),
  )
  return [...new Set(below)]
}
