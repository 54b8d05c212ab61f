import { parentOf, type BytePath } from '../bytePath.ts'
import { errorCode } from '../disk.ts'

export type Place = { readonly root: string; readonly path: BytePath }
/** A root by the name we know it by, and every path under which it can be reached. */
export type Home = { readonly name: string; readonly paths: readonly string[] }
/** The target of a link inside a root, or null for anything else. */
export type LinkAt = (root: string, path: BytePath) => Promise<string | null>
export type Followed =
  | { readonly stays: true; readonly end: Place; readonly through: readonly Place[] }
  | { readonly stays: false; readonly why: string; readonly through: readonly Place[] }

const mostHops = 40
const closed = Symbol('closed')

/** One link that nobody can follow must not keep all else from being looked at. (escape: link-against-the-review) */
function unlessUnseen(error: unknown): null | typeof closed {
  const code = errorCode(error)
  // There can be nothing of such a name.
  if (code === 'ENAMETOOLONG') return null
  if (code === 'EACCES' || code === 'EPERM') return closed
  throw error
}

/** Where a link leads, by its text and by the links on the way, as far as that is inside the roots. */
export async function followLink(
  link: Place & { readonly target: string },
  homes: readonly Home[],
  linkAt: LinkAt,
): Promise<Followed> {
  const through: Place[] = []
  let root: string = link.root
  let at = parentOf(link.path).split('/').filter(Boolean)
  let pending = link.target
  for (let hops = 0; hops < mostHops; hops += 1) {
    if (pending.startsWith('/')) {
      const home = homeOf(homes, pending)
      if (home === null)
        return { stays: false, why: 'a link to an absolute path outside the roots never lands', through }
      root = home.name
      at = []
      pending = pending.slice(home.path.length)
    }
    const names = pending.split('/').filter((name) => name !== '' && name !== '.')
    let next: string | null = null
    while (names.length > 0) {
      const name = names.shift() ?? ''
      if (name === '..') {
        if (at.length > 0) {
          at.pop()
          continue
        }
        const beside = besides(homes, root, names)
        if (beside === null)
          return { stays: false, why: 'a link that leads out of its root never lands', through }
        root = beside.name
        names.splice(0, names.length, ...beside.names)
        continue
      }
      const here = [...at, name].join('/') as BytePath
      const target = await linkAt(root, here).catch(unlessUnseen)
      if (target === closed) {
        // What lies behind is nobody's to know; by its text it leads there.
        const end = [...at, name]
        for (const each of names) {
          if (each === '..') end.pop()
          else end.push(each)
        }
        through.push({ root, path: end.join('/') as BytePath })
        return { stays: false, why: 'a link into a folder that is closed to you never lands', through }
      }
      if (target !== null) {
        through.push({ root, path: here })
        next = [target, ...names].join('/')
        break
      }
      at.push(name)
    }
    if (next === null) return { stays: true, end: { root, path: at.join('/') as BytePath }, through }
    pending = next
  }
  return { stays: false, why: 'a link that leads through too many links never lands', through }
}

/** The root that a way upwards out of another one leads into, by where they lie on the host, and what is left of the way. */
function besides(
  homes: readonly Home[],
  root: string,
  rest: readonly string[],
): { name: string; names: readonly string[] } | null {
  const folder = Buffer.from(root).toString('latin1').split('/').filter(Boolean).slice(0, -1)
  const names = [...rest]
  while (names[0] === '..') {
    names.shift()
    folder.pop()
  }
  const hosts = homes.map(({ name }) => ({ name, paths: [name] }))
  const path = `/${[...folder, ...names].join('/')}`
  // Beyond the roots a name may be a link to anywhere: only the plain way counts.
  const home = homeOf(hosts, path)
  if (home === null) return null
  return { name: home.name, names: path.slice(home.path.length).split('/').filter(Boolean) }
}

/** The innermost root that holds an absolute path. */
export function homeOf(homes: readonly Home[], target: string): { name: string; path: string } | null {
  const found = homes
    .flatMap(({ name, paths }) => paths.map((path) => ({ name, path: Buffer.from(path).toString('latin1') })))
    .filter(({ path }) => target === path || target.startsWith(`${path}/`))
  return found.toSorted((a, b) => b.path.length - a.path.length)[0] ?? null
}
