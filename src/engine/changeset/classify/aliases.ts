import { readdir, realpath } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname } from 'node:path'
import { run } from '../../base/process.ts'
import { fromBytes, joinPath, parentOf, type BytePath } from '../bytePath.ts'
import { gitPartOf, isPackageFile } from './classify.ts'
import { followLink, homeOf, type Home, type LinkAt, type Place } from './links.ts'
import { entryKey } from '../manifest.ts'
import { isProtectedPath, leadsToProtected } from './protectedPaths.ts'

/** The user's own links, by which files are reached under other names. */
export type UserLinks = {
  readonly inside: readonly Place[]
  /** Links outside the roots that lead into one: `~/.bashrc` into a folder of dotfiles. */
  readonly outside: readonly { readonly alias: Place; readonly end: Place }[]
  /** Roots too large to be looked through in time. */
  readonly unfinished: readonly string[]
}
const patienceMs = 10_000
/** A link may lie in a folder that is protected only by way of another link, and so on. */
const mostRounds = 5

/**
 * Finds the links of the roots, and those under protected names beside them. Costs a walk of names, without a
 * single stat, once at the first capture and once at the last.
 */
export async function findUserLinks(
  roots: readonly { readonly path: string; readonly base: string }[],
  homes: readonly Home[],
): Promise<UserLinks> {
  const inside: Place[] = []
  const unfinished: string[] = []
  for (const { path: root, base } of roots) {
    const found = await linksBelow(base)
    if (found === null) unfinished.push(root)
    for (const path of found ?? []) inside.push({ root, path })
  }
  return { inside, outside: await linksBeside(roots, homes), unfinished }
}

async function linksBelow(base: string): Promise<readonly BytePath[] | null> {
  const bulk = ['-name', 'node_modules', '-o', '-path', '*/.git/objects', '-o', '-path', '*/.git/logs']
  // Kinds first: find would rather match the names of all files, which takes three times as long.
  const args = ['-P', '.', '-type', 'l', '-print0', '-o', '-type', 'f', '-o', '(', ...bulk, ')', '-prune']
  const found = await run('find', args, { cwd: base, timeoutMs: patienceMs })
  // 1: some folder is closed to us, and so is whatever lies in it.
  if (found.code !== 0 && found.code !== 1) return null
  const paths = fromBytes(found.stdout).split('\0')
  return paths.filter((path) => path !== '').map((path) => path.slice('..'.length) as BytePath)
}

/** In the user's home and in the folders above the roots. */
async function linksBeside(
  roots: readonly { readonly path: string }[],
  homes: readonly Home[],
): Promise<UserLinks['outside']> {
  const folders = new Set([homedir()])
  for (const { path } of roots)
    for (let at = path; at !== dirname(at); at = dirname(at)) folders.add(dirname(at))
  const found: { alias: Place; end: Place }[] = []
  const look = async (folder: string): Promise<void> => {
    for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
      const path = fromBytes(Buffer.from(`${folder === '/' ? '' : folder}/${entry.name}`))
      const leads = leadsToProtected('', path)
      if (entry.isDirectory() && leads) await look(`${folder}/${entry.name}`)
      if (!entry.isSymbolicLink() || !(leads || isProtectedPath('', path))) continue
      const real = await realpath(`${folder}/${entry.name}`).catch(() => '')
      const target = fromBytes(Buffer.from(real))
      const home = homeOf(homes, target)
      if (home === null) continue
      const end = { root: home.name, path: target.slice(home.path.length + 1) as BytePath }
      found.push({ alias: { root: '', path }, end })
    }
  }
  for (const folder of folders) await look(folder)
  return found
}

/**
 * The names under which a path can be reached besides its own, as far as they matter. What a protected name
 * points to is as good as protected: the agent could change `AGENTS.md` by way of the plain file behind it.
 * (escape: protected-name-behind-a-link)
 */
export class Aliases {
  readonly #byEnd = new Map<string, Place[]>()
  readonly #added: readonly string[]

  private constructor(added: readonly string[]) {
    this.#added = added
  }

  /** `views` say where a link leads: in the original, and in the agent's version. */
  static async find(
    links: UserLinks,
    ownLinks: readonly Place[],
    homes: readonly Home[],
    views: readonly LinkAt[],
    added: readonly string[],
  ): Promise<Aliases> {
    const aliases = new Aliases(added)
    for (const { alias, end } of links.outside) aliases.#add(end, alias)
    let waiting = [...links.inside, ...ownLinks]
    for (let round = 0; round < mostRounds; round += 1) {
      const { true: chosen = [], false: others = [] } = Object.groupBy(waiting, (link) =>
        aliases.#matters(link) ? 'true' : 'false',
      )
      if (chosen.length === 0) break
      for (const link of chosen) await aliases.#follow(link, homes, views)
      waiting = others
    }
    return aliases
  }

  async #follow(link: Place, homes: readonly Home[], views: readonly LinkAt[]): Promise<void> {
    for (const linkAt of views) {
      const target = await linkAt(link.root, link.path)
      if (target === null) continue
      const followed = await followLink({ ...link, target }, homes, linkAt)
      const ends = followed.stays ? [...followed.through, followed.end] : followed.through
      for (const end of ends) for (const name of [link, ...this.of(link)]) this.#add(end, name)
    }
  }

  #add(end: Place, alias: Place): void {
    const key = entryKey(end)
    this.#byEnd.set(key, [...(this.#byEnd.get(key) ?? []), alias])
  }

  #matters(link: Place): boolean {
    return [link, ...this.of(link)].some(
      ({ root, path }) =>
        this.#isProtected({ root, path }) ||
        leadsToProtected(root, path) ||
        isPackageFile(path) ||
        this.#added.some((pattern) => pattern.includes('/')),
    )
  }

  #isProtected({ root, path }: Place): boolean {
    return isProtectedPath(root, path, this.#added) || gitPartOf(path) !== null
  }

  isProtected(place: Place): boolean {
    return (
      isProtectedPath(place.root, place.path, this.#added) ||
      this.of(place).some((each) => this.#isProtected(each))
    )
  }

  of({ root, path }: Place): readonly Place[] {
    if (this.#byEnd.size === 0) return []
    const found: Place[] = []
    for (let end = path; ; end = parentOf(end)) {
      const rest = path.slice(end === '' ? 0 : end.length + 1)
      for (const alias of this.#byEnd.get(entryKey({ root, path: end })) ?? [])
        found.push(rest === '' ? alias : { root: alias.root, path: joinPath(alias.path, rest) })
      if (end === '') return found
    }
  }
}
