import type { SpawnInput } from '../../shared/api.ts'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import { contractOfOptions } from '../../shared/contractOptions.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import type { RootMode, SandboxSpec, WorkspaceStrategy } from '../../shared/spec.ts'
import { shellLine } from '../../shared/shellLine.ts'
import { commandOf } from './command.ts'
import { troubleWithAmount, troubleWithCount, troubleWithHosts } from './troubles.ts'

export type SpawnForm = {
  readonly roots: readonly string[]
  /** What it may do with each of them, by place; what is not there is `rw`. */
  readonly rootModes: readonly RootMode[]
  readonly agent: string
  readonly command: string
  readonly prompt: string
  readonly name: string
  readonly level: SandboxLevel
  readonly changeset: WorkspaceStrategy
  /** Id of the integration worktree, for that strategy. */
  readonly worktree: string
  /** Id of a sandbox that was made before and waits for something to run in it. */
  readonly invocation: string
  /** Null: as it comes, by whether hosts are named. */
  readonly boundary: BoundaryLevel | null
  readonly hosts: string
  readonly memoryMb: string
  readonly cpus: string
  readonly pids: string
  readonly diskMb: string
  readonly timeoutS: string
  /** What an earlier dispatch asked for and no field here is for: it is asked for again, never dropped in silence. */
  readonly extra: Readonly<Record<string, unknown>>
}

export const emptyForm: SpawnForm = {
  roots: [''],
  rootModes: [],
  agent: 'command',
  command: '',
  prompt: '',
  name: '',
  level: 1,
  changeset: 'overlay',
  worktree: '',
  invocation: '',
  boundary: null,
  hosts: '',
  memoryMb: '',
  cpus: '',
  pids: '',
  diskMb: '',
  timeoutS: '',
  extra: {},
}

const given = (text: string) => (text.trim() === '' ? undefined : text.trim())
const plainRoot = (root: string): string => root.trim().replace(/(?<=.)\/+$/, '')
export const rootsOf = (form: Pick<SpawnForm, 'roots'>): string[] => form.roots.map(plainRoot).filter(Boolean)

/** Where it runs, if not in the folders themselves. */
export function placeOf({
  changeset,
  worktree,
  invocation,
}: SpawnForm): Pick<SpawnInput, 'worktree' | 'invocation'> {
  if (invocation !== '') return { invocation }
  return changeset === 'worktree' && worktree !== '' ? { worktree } : {}
}

/** What to show of a folder's mode: nothing where it is the only one, for which there is the boundary. */
export const modeAt = ({ roots, rootModes }: SpawnForm, at: number): RootMode | undefined => {
  const mode = rootModes[at] ?? 'rw'
  return roots.length < 2 && mode === 'rw' ? undefined : mode
}

export const modesWith = ({ roots, rootModes }: SpawnForm, at: number, mode: RootMode): RootMode[] =>
  roots.map((_, index) => (index === at ? mode : (rootModes[index] ?? 'rw')))

export const withoutRoot = ({ roots, rootModes }: SpawnForm, at: number): Partial<SpawnForm> => ({
  roots: roots.toSpliced(at, 1),
  rootModes: rootModes.toSpliced(at, 1),
})

/** `FOLDER=MODE` of those it may not simply write. */
function modesOf({ roots, rootModes, invocation }: SpawnForm): string[] | undefined {
  const named = roots.flatMap((root, at) => {
    const mode = rootModes[at] ?? 'rw'
    return plainRoot(root) === '' || mode === 'rw' ? [] : [`${plainRoot(root)}=${mode}`]
  })
  return named.length === 0 || invocation !== '' ? undefined : named
}
export const hostsOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter(Boolean)

/** The boundary it starts with: naming hosts opens the network to them, unless another boundary is asked for. */
export const boundaryOf = (form: Pick<SpawnForm, 'boundary' | 'hosts'>): BoundaryLevel =>
  form.boundary ?? (hostsOf(form.hosts).length > 0 ? 'network' : 'readwrite')

/** Only what differs from the defaults of `run` is asked for: a contract nobody wrote stays NULL. */
function contractOf(form: SpawnForm) {
  const hosts = hostsOf(form.hosts)
  const isDefault = form.boundary === null || (form.boundary === 'readwrite' && hosts.length === 0)
  return {
    level: form.level === 1 ? undefined : form.level,
    changeset: form.changeset === 'overlay' ? undefined : form.changeset,
    boundary: isDefault ? undefined : (form.boundary ?? undefined),
    allowHost: hosts.length === 0 ? undefined : [...hosts],
    rootMode: modesOf(form),
    memoryMb: given(form.memoryMb),
    cpus: given(form.cpus),
    pids: given(form.pids),
    diskMb: given(form.diskMb),
    timeoutS: given(form.timeoutS),
  }
}

function specOf(form: SpawnForm): SandboxSpec | null {
  const spec = contractOfOptions(contractOf(form))
  if (Object.keys(form.extra).length === 0) return spec
  const limits = { ...(form.extra['limits'] as object | undefined), ...spec?.limits }
  return { ...form.extra, ...spec, ...(Object.keys(limits).length === 0 ? {} : { limits }) }
}

export const spawnFields = [
  'folder',
  'command',
  'worktree',
  'hosts',
  'memoryMb',
  'cpus',
  'pids',
  'diskMb',
  'timeoutS',
  'level',
] as const
export type SpawnField = (typeof spawnFields)[number]
/** By field, in the words of the form. */
export type Troubles = Readonly<Partial<Record<SpawnField, string>>>

const fieldNames: Readonly<Record<SpawnField, string>> = {
  folder: 'Folder',
  command: 'Command',
  worktree: 'Worktree',
  hosts: 'Hosts it may reach',
  memoryMb: 'Memory',
  cpus: 'CPUs',
  pids: 'Processes',
  diskMb: 'Disk',
  timeoutS: 'Time',
  level: 'Isolation',
}

/** The fields at fault by name: the one that is may be out of sight. */
export function lookAt(troubles: Troubles): string {
  const names = spawnFields.filter((field) => troubles[field] !== undefined).map((field) => fieldNames[field])
  return names.length === 0
    ? 'Checked before it starts: folders, sandbox, disk, sign-ins.'
    : `Look again at ${names.join(', ')}.`
}

export type Filled =
  | { readonly ok: true; readonly input: SpawnInput }
  | {
      readonly ok: false
      /** What is not there yet; nothing is wrong with it. */
      readonly missing: SpawnField | null
      readonly why: string
      readonly troubles: Troubles
    }

function missingIn(form: SpawnForm): { field: SpawnField; why: string } | null {
  if (rootsOf(form).length === 0) return { field: 'folder', why: 'Choose a folder first.' }
  if (form.agent === 'command' && commandOf(form.command).length === 0)
    return { field: 'command', why: 'Say what to run.' }
  if (form.changeset === 'worktree' && form.worktree === '' && form.invocation === '')
    return { field: 'worktree', why: 'Choose or create a worktree.' }
  return null
}

function troublesIn(form: SpawnForm): Troubles {
  const found = {
    folder: rootsOf(form).some((root) => !root.startsWith('/'))
      ? 'Write the whole path, beginning with / or ~.'
      : null,
    hosts: troubleWithHosts(hostsOf(form.hosts)),
    memoryMb: troubleWithAmount(form.memoryMb, 'megabytes, as in 2048'),
    cpus: troubleWithAmount(form.cpus, 'processors, as in 2 or 0.5'),
    pids: troubleWithCount(form.pids, 'processes, as in 512'),
    diskMb: troubleWithAmount(form.diskMb, 'megabytes, as in 2048'),
    timeoutS: troubleWithAmount(form.timeoutS, 'seconds, as in 900'),
  }
  return Object.fromEntries(Object.entries(found).filter(([, why]) => why !== null))
}

/** The request the form stands for, or what it lacks. */
export function fill(form: SpawnForm): Filled {
  const troubles = troublesIn(form)
  const missing = missingIn(form)
  if (missing !== null) return { ok: false, missing: missing.field, why: missing.why, troubles }
  if (Object.keys(troubles).length > 0) return { ok: false, missing: null, why: lookAt(troubles), troubles }
  try {
    const spec = specOf(form)
    return {
      ok: true,
      input: {
        agent: form.agent,
        command: form.agent === 'command' ? [...commandOf(form.command)] : [],
        roots: rootsOf(form),
        ...(given(form.prompt) === undefined || form.agent === 'command'
          ? {}
          : { prompt: form.prompt.trim() }),
        ...(given(form.name) === undefined ? {} : { name: form.name.trim() }),
        ...placeOf(form),
        ...(spec === null ? {} : { sandbox_spec: JSON.stringify(spec) }),
      },
    }
  } catch (error) {
    if (!(error instanceof OrangeryError)) throw error
    return { ok: false, missing: null, why: error.message, troubles }
  }
}

/** The line that does the same in a terminal. */
export function terminalLine(form: SpawnForm): string {
  const contract = contractOf(form)
  const own = form.agent === 'command'
  const option = (name: string, value: string | number | undefined) =>
    value === undefined ? [] : [name, String(value)]
  const isWhole = Object.keys(form.extra).length > 0
  const words = [
    'orangery',
    ...(own ? ['run'] : ['dispatch', 'spawn', `--agent=${form.agent}`]),
    ...rootsOf(form).flatMap((root) => ['--dir', root]),
    ...option('--invocation', given(form.invocation)),
    ...option(
      '--worktree',
      form.changeset === 'worktree' && form.invocation === '' ? given(form.worktree) : undefined,
    ),
    ...(isWhole
      ? ['--sandbox-spec', JSON.stringify(specOf(form))]
      : [
          ...option('--level', contract.level),
          ...option('--changeset', contract.changeset),
          ...option('--boundary', contract.boundary),
          ...(contract.allowHost ?? []).flatMap((host) => ['--allow-host', host]),
          ...(contract.rootMode ?? []).flatMap((mode) => ['--root-mode', mode]),
          ...option('--memory-mb', contract.memoryMb),
          ...option('--cpus', contract.cpus),
          ...option('--pids', contract.pids),
          ...option('--disk-mb', contract.diskMb),
          ...option('--timeout-s', contract.timeoutS),
        ]),
    ...option('--name', given(form.name)),
    ...(own ? ['--', ...commandOf(form.command)] : option('--prompt', given(form.prompt))),
  ]
  return shellLine(words)
}
