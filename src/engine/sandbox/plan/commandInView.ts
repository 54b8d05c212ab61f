import { constants } from 'node:fs'
import { access, lstat, open, readlink, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'
import { systemFolders } from '../../base/process.ts'
import { doorPath, type SandboxRequest } from '../../base/sandbox.ts'
import { agentHome } from './etc.ts'
import type { HostFacts } from '../host/host.ts'
import { planEnvironment } from './plan.ts'
import { isInside } from './view.ts'

/** `source`: where it is on the host. Null: covered. Undefined: nobody can say yet what will be there. */
type Place = { readonly target: string; readonly source: string | null | undefined; readonly isLink?: true }

/** The view as far as programs can be in it. `isFresh`: nothing has run in this workspace before. */
function placesOf(request: SandboxRequest, host: HostFacts, isFresh: boolean): readonly Place[] {
  const { level, grants, workspace } = request
  const isKnown = isFresh && workspace.strategy !== 'worktree'
  const roots = workspace.roots
    .filter((root) => root.access !== 'hidden')
    .flatMap(({ path, target }) =>
      [...new Set([target, path])].map((place) => ({ target: place, source: isKnown ? path : undefined })),
    )
  if (level === 0) return [{ target: '/', source: '/' }, ...roots]
  return [
    ...host.system.map(({ path, kind }): Place => ({
      target: path,
      source: path,
      ...(kind === 'link' ? { isLink: true } : {}),
    })),
    ...host.secretPaths.map(({ path }) => ({ target: path, source: null })),
    ...['/proc', '/dev', doorPath].map((target) => ({ target, source: undefined })),
    { target: agentHome, source: request.home },
    ...(request.shown ?? []),
    ...grants.map((path) => ({ target: path, source: path })),
    ...roots,
  ]
}

type Look =
  | { readonly kind: 'there'; readonly source: string | undefined }
  | { readonly kind: 'missing'; readonly path: string }

const mostLinks = 40
const partsOf = (path: string) => path.split('/').filter((part) => part !== '')

/** Of two places around a path the inner one counts, and of two at one place the later. */
const placeAround = (path: string, places: readonly Place[]): Place | null =>
  places.reduce<Place | null>(
    (best, place) =>
      isInside(path, place.target) && place.target.length >= (best?.target.length ?? 0) ? place : best,
    null,
  )

/** Follows a path as the agent would: name by name, and links through what it sees. */
async function lookUp(path: string, places: readonly Place[]): Promise<Look> {
  let rest = partsOf(path)
  let at = '/'
  let source: string | undefined
  let links = 0
  while (rest.length > 0) {
    const [part = '', ...others] = rest
    const next = resolve(at, part)
    const whole = join(next, ...others)
    const place = placeAround(next, places)
    if (place !== null && place.source === undefined) return { kind: 'there', source: undefined }
    if (place === null || place.source == null) {
      if (!places.some(({ target }) => isInside(target, next))) return { kind: 'missing', path: whole }
      ;[at, rest] = [next, others]
      continue
    }
    source = join(place.source, next.slice(place.target.length))
    const info = await lstat(source).catch(() => null)
    // The agent's home is made after this was asked, and what is shown in it with it.
    const isWayIn = info === null && places.some(({ target }) => target !== next && isInside(target, next))
    if (info === null && !isWayIn) return { kind: 'missing', path: whole }
    // What is mounted is what a link leads to, wherever that is.
    if (info?.isSymbolicLink() !== true || (next === place.target && place.isLink === undefined)) {
      ;[at, rest] = [next, others]
      continue
    }
    if (++links > mostLinks) return { kind: 'missing', path }
    const to = await readlink(source).catch(() => '')
    ;[at, rest] = [to.startsWith('/') ? '/' : at, [...partsOf(to), ...others]]
  }
  return { kind: 'there', source }
}

const isProgram = (path: string): Promise<boolean> =>
  Promise.all([stat(path), access(path, constants.X_OK)]).then(
    ([info]) => info.isFile(),
    () => false,
  )

/** `isElsewhere`: there is such a program, which the agent does not see or find. */
type Fault = { readonly why: string; readonly fix: string; readonly isElsewhere: boolean }
/** `source`: the program, on the host, where it is there yet. */
type Found = { readonly source: string | undefined }
const isFault = (answer: Fault | Found): answer is Fault => 'why' in answer

export const tilde = (path: string): string => {
  const home = homedir()
  return isInside(path, home) && home !== '/' ? `~${path.slice(home.length)}` : path
}
const grant = (path: string) =>
  `Add "${tilde(dirname(path))}" to sandboxRequirements.read of an agent's card (a folder called bin is then on PATH); homes are not shown by themselves.`

async function findFile(path: string, places: readonly Place[]): Promise<Fault | Found> {
  const look = await lookUp(path, places)
  const spoken = tilde(path)
  if (look.kind === 'there') {
    if (look.source === undefined || (await isProgram(look.source))) return { source: look.source }
    return {
      why: `${spoken} is not executable`,
      fix: `chmod +x ${spoken}, or name a program.`,
      isElsewhere: false,
    }
  }
  const isOnHost = await stat(look.path).catch(() => null)
  const leads = look.path === path ? '' : ` leads to ${tilde(look.path)}, which`
  if (isOnHost === null) {
    const why = leads === '' ? `${spoken} is not there` : `${spoken}${leads} is not there`
    return { why, fix: 'Install it, or name another program.', isElsewhere: false }
  }
  return { why: `${spoken}${leads} is not shown in the sandbox`, fix: grant(look.path), isElsewhere: true }
}

const foldersOf = (path: string | undefined) =>
  (path ?? systemFolders.join(':')).split(':').filter((folder) => folder.startsWith('/'))

/** By name: the first on the PATH inside that is one, as a shell looks. Else why the nearest thing to it is none. */
async function findName(name: string, inside: string, places: readonly Place[]): Promise<Fault | Found> {
  const folders = foldersOf(inside).filter((folder) => !isInside(folder, doorPath))
  const paths = folders.map((folder) => join(folder, name))
  // At once: an agent waits for this.
  const answers = await Promise.all(paths.map((path) => findFile(path, places)))
  const found = answers.find((answer) => !isFault(answer))
  if (found !== undefined) return found
  const isThere = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
  const near = answers.find((_answer, index) => isThere[index] !== null)
  if (near !== undefined) return near
  for (const folder of foldersOf(process.env['PATH'])) {
    const path = join(folder, name)
    if (!(await isProgram(path))) continue
    const answer = await findFile(path, places)
    const fix = `Give "${tilde(path)}" as the command, or grant a folder called bin that holds it.`
    const why = `${tilde(path)} is shown, but its folder is not on PATH inside`
    return isFault(answer) ? answer : { why, fix, isElsewhere: true }
  }
  const fix = `Install it, or give its path; inside, PATH is ${folders.map(tilde).join(':')}.`
  return { why: 'it is neither on PATH inside nor on yours', fix, isElsewhere: false }
}

/** What a script says is to run it: an agent installed by npm is a script of the home's own node. */
async function interpreterOf(program: string): Promise<string | null> {
  const file = await open(program).catch(() => null)
  if (file === null) return null
  await using _file = file
  const { buffer, bytesRead } = await file.read(Buffer.alloc(256), 0, 256, 0)
  const [, path = '', rest = ''] =
    /^#![ \t]*(\S+)(?:[ \t]+([^\n]*))?/.exec(buffer.toString('latin1', 0, bytesRead)) ?? []
  if (path === '') return null
  if (basename(path) !== 'env') return path
  return rest.split(/\s+/).find((word) => !/^(?:-|\w+=|$)/.test(word)) ?? path
}

/** What keeps a program from being started in the sandbox, and what to do about it. */
async function faultOfCommand(
  request: SandboxRequest,
  host: HostFacts,
  isFresh: boolean,
): Promise<Fault | null> {
  const [program = ''] = request.command
  if (request.level > 1) return null
  // Found already when the host was looked at: an agent waits for this.
  const isTool = Object.entries(host.tools).some(
    ([name, path]) =>
      name === program && path !== null && (systemFolders as readonly string[]).includes(dirname(path)),
  )
  if (isTool && request.env['PATH'] === undefined) return null
  const places = placesOf(request, host, isFresh)
  const inside = planEnvironment(request)['PATH'] ?? systemFolders.join(':')
  const find = (word: string) =>
    word.includes('/') ? findFile(resolve(request.cwd, word), places) : findName(word, inside, places)
  const answer = await find(program)
  if (isFault(answer)) return answer
  const interpreter = answer.source === undefined ? null : await interpreterOf(answer.source)
  const behind = interpreter === null ? answer : await find(interpreter)
  return isFault(behind) ? { ...behind, why: `it is run by ${interpreter}, and ${behind.why}` } : null
}

/** Why one was not found inside that is there outside, once it was tried. */
export async function whereElse(request: SandboxRequest, host: HostFacts): Promise<string | null> {
  const fault = await faultOfCommand(request, host, true)
  return fault?.isElsewhere === true ? fault.why : null
}

/** Of a card's own command; who gives one by hand sees what a shell would say. */
export async function checkCommand(
  request: SandboxRequest,
  host: HostFacts,
  isFresh: boolean,
): Promise<readonly CheckResult[]> {
  const fault = await faultOfCommand(request, host, isFresh)
  if (fault === null) return []
  const detail = `${request.command[0]}: it cannot be started in the sandbox: ${fault.why}`
  return [{ name: 'command', ok: false, detail, fix: fault.fix }]
}
