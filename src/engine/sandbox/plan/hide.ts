import { lstat, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { run } from '../../base/process.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import { pathBytes, pathText } from '../bytes.ts'
import { literal, placedIn, withRealPaths, type PlacedPattern } from './hidePatterns.ts'
import type { SandboxPlan } from './plan.ts'
import { isInside, type ViewStep } from './view.ts'

/**
 * A name with brackets (`[id].ts`) is meant as a class by some and as it stands by others: both are hidden. To
 * `find` a star in a path matches slashes too: where in doubt more is hidden.
 */
function findTests(folder: string, { kind, glob }: PlacedPattern): readonly string[] {
  const globs = glob.includes('[') ? [glob, glob.replaceAll('[', String.raw`\[`)] : [glob]
  return either(
    globs.map((each) => (kind === 'name' ? ['-name', each] : ['-path', `${literal(folder)}/${each}`])),
  )
}

/** `path` is from the root; `file` tells one from another, `to` is where a link leads. */
type Found = {
  readonly kind: string
  readonly links: number
  readonly file: string
  readonly path: string
  readonly to: string
}

/** What the agent sees of a root: the layers its files come from, and the places where they are. */
type Seen = {
  readonly root: WorkspaceRoot
  readonly folders: readonly string[]
  readonly places: readonly string[]
}

// What others do in the tree meanwhile is no failure: a file may go before `find` looks at it.
const goneMeanwhile = /^.*find: [‘'"].*[’'"]: No such file or directory$/gm

async function find(program: string, root: string, tests: readonly string[]): Promise<readonly Found[]> {
  const action = ['-prune', '-printf', String.raw`%y %n %D:%i %P\0%l\0`]
  const listing = await run(program, [root, '-mindepth', '1', '(', ...tests, ')', ...action], { cwd: '/' })
  const said = listing.stderr.toString().replaceAll(goneMeanwhile, '').trim()
  if (listing.code !== 0 && (listing.code !== 1 || said !== '' || listing.stderr.length === 0)) {
    throw new OrangeryError(
      'sandbox.cannot_hide',
      `hide: find failed in ${root}: ${said.split('\n')[0] || `it ended with ${listing.code ?? listing.signal}`}`,
      { kind: 'preflight', hint: 'Try that command by hand; without it nothing can be hidden.' },
    )
  }
  return parseFound(listing.stdout)
}

function parseFound(listing: Buffer): readonly Found[] {
  const texts = listing.toString('latin1').split('\0')
  const read = (latin: string) => pathText(Buffer.from(latin, 'latin1'))
  return texts.flatMap((line, index) => {
    if (index % 2 === 1) return []
    const [, kind = '', links = '', file = '', path = ''] = /^(\S+) (\d+) (\S+) ([^]*)$/.exec(line) ?? []
    if (path === '') return []
    return [{ kind, links: Number(links), file, path: read(path), to: read(texts[index + 1] ?? '') }]
  })
}

const either = (tests: readonly (readonly string[])[]) =>
  tests.flatMap((test, index) => (index === 0 ? test : ['-o', ...test]))

// Whose names cannot be listed may hold what is to be hidden, and its owner opens it with chmod: it is hidden
// whole.
const unlistable = ['-type', 'd', '(', '!', '-readable', '-o', '!', '-executable', ')']

type Placed = { readonly seen: Seen; readonly found: Found }

/** Where a link leads, if that is in a root: reading the link would read it. */
async function behindLink({ seen, found }: Placed, all: readonly Seen[]): Promise<readonly Placed[]> {
  const starts = found.to.startsWith('/')
    ? ['']
    : seen.folders.map((folder) => `${folder}/${dirname(found.path)}/`)
  const ends = await Promise.all(
    starts.map((start) =>
      realpath(pathBytes(start + found.to), { encoding: 'buffer' }).then(pathText, () => null),
    ),
  )
  const inside = ends.flatMap((end) =>
    end === null
      ? []
      : all.flatMap((candidate) => {
          const { root, folders } = candidate
          const base = [...folders, root.target, root.path].find(
            (folder) => isInside(end, folder) && end !== folder,
          )
          return base === undefined ? [] : [{ seen: candidate, path: end.slice(base.length + 1) }]
        }),
  )
  const placed = await Promise.all(inside.map((end) => lookAt(end.seen, end.path)))
  return placed.flat()
}

async function lookAt(seen: Seen, path: string): Promise<readonly Placed[]> {
  const infos = await Promise.all(
    seen.folders.map((folder) => lstat(pathBytes(`${folder}/${path}`), { bigint: true }).catch(() => null)),
  )
  return infos.flatMap((info) =>
    info === null || info.isSymbolicLink()
      ? []
      : [
          {
            seen,
            found: {
              kind: info.isDirectory() ? 'd' : info.isFile() ? 'f' : 'o',
              links: Number(info.nlink),
              file: `${info.dev}:${info.ino}`,
              path,
              to: '',
            },
          },
        ],
  )
}

/** By the patterns, by where links found by them lead, and by every other name that such a file has in a root. */
async function findHidden(
  program: string,
  patterns: readonly string[],
  all: readonly Seen[],
): Promise<readonly Placed[]> {
  const search = async (testsIn: (folder: string, root: WorkspaceRoot) => readonly string[]) => {
    const found = await Promise.all(
      all.flatMap((seen) =>
        seen.folders.map(async (folder) =>
          (await find(program, folder, testsIn(folder, seen.root))).map((one) => ({ seen, found: one })),
        ),
      ),
    )
    return found.flat()
  }
  const spelled = await withRealPaths(patterns)
  const named = await search((folder, root) => {
    const placed = spelled.flatMap((pattern) => placedIn(pattern, root))
    return either([...placed.map((pattern) => findTests(folder, pattern)), unlistable])
  })
  const led = await Promise.all(
    named.filter(({ found }) => found.kind === 'l').map((link) => behindLink(link, all)),
  )
  const direct = [...named.filter(({ found }) => found.kind !== 'l'), ...led.flat()]
  const folders = new Set(direct.flatMap((placed) => (placed.found.kind === 'd' ? [placeOf(placed)] : [])))
  const linked = new Set(
    direct.flatMap(({ found }) => (found.kind === 'f' && found.links > 1 ? [found.file] : [])),
  )
  if (folders.size + linked.size === 0) return direct
  const several = await search(() =>
    either([
      ['-type', 'f', '-links', '+1'],
      [...unlistable, '-prune', '-false'],
    ]),
  )
  for (const placed of several) {
    if (isBelow(placeOf(placed), folders)) linked.add(placed.found.file)
  }
  return [...direct, ...several.filter(({ found }) => linked.has(found.file))]
}

const placeOf = ({ seen, found }: Placed) => `${seen.root.target}/${found.path}`

function isBelow(path: string, folders: ReadonlySet<string>): boolean {
  for (let outer = dirname(path); outer !== '/'; outer = dirname(outer)) if (folders.has(outer)) return true
  return false
}

const cover = ({ seen, found }: Placed, why: string): readonly ViewStep[] =>
  seen.places.map((place) => ({
    kind: 'hidden',
    of: found.kind === 'd' ? 'folder' : 'file',
    target: join(place, found.path),
    why,
  }))

/** In a folder that is hidden there is nothing left to cover, nor a place to do it. */
function outermost(steps: ReadonlyMap<string, ViewStep>): readonly ViewStep[] {
  const folders = new Set(
    [...steps.values()].flatMap((step) =>
      step.kind === 'hidden' && step.of === 'folder' ? [step.target] : [],
    ),
  )
  return [...steps.values()].filter(({ target }) => !isBelow(target, folders))
}

function seenRoots({ request, view }: SandboxPlan): readonly Seen[] {
  return request.workspace.roots.flatMap((root, slot) => {
    if (root.access === 'hidden') return []
    const { mount } = root
    if (mount.kind === 'bind') return [{ root, folders: [mount.source], places: [root.target] }]
    // Also at its real path, where it was named through a symlink.
    const places = view.flatMap((step) => (step.kind === 'root' && step.slot === slot ? [step.target] : []))
    return [{ root, folders: [mount.upper, mount.lower], places }]
  })
}

/**
 * The plan with every file that is to be hidden in its view. What comes into being later is not hidden. Where
 * the agent has the real files it would have the sockets and pipes among them too, at which somebody listens, however
 * read-only the mount; seen through an overlay they are others. (escape: socket-in-real-files, pipe-in-real-files)
 */
export async function withHidden(plan: SandboxPlan): Promise<SandboxPlan> {
  const { hide, workspace } = plan.request
  const program = plan.tools.find
  const isDirect = workspace.strategy === 'none' && plan.confinement === 'bubblewrap'
  if ((hide.length === 0 && !isDirect) || program === null) return plan
  const all = seenRoots(plan)
  const sockets = async () => {
    const found = await Promise.all(
      all.map(async (seen) => {
        const [folder = ''] = seen.folders
        const tests = either([
          ['-type', 's,p'],
          [...unlistable, '-prune', '-false'],
        ])
        return (await find(program, folder, tests)).map((one) => ({ seen, found: one }))
      }),
    )
    return found.flat().flatMap((placed) => cover(placed, 'a socket or pipe of the host'))
  }
  const [hidden, listening] = await Promise.all([
    hide.length === 0 ? [] : findHidden(program, hide, all),
    isDirect ? sockets() : [],
  ])
  const found = [...listening, ...hidden.flatMap((placed) => cover(placed, 'hidden by the spec'))]
  const steps = outermost(new Map(found.map((step) => [step.target, step])))
  const seal = plan.view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  return { ...plan, view: [...plan.view.slice(0, seal), ...steps, ...plan.view.slice(seal)] }
}
