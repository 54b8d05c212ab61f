import type { SpawnInput } from '../../shared/api.ts'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import { contractOfOptions } from '../../shared/contractOptions.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { SandboxLevel } from '../../shared/level.ts'
import type { WorkspaceStrategy } from '../../shared/spec.ts'
import { shellLine } from '../../shared/shellLine.ts'
import { commandOf } from './command.ts'

export type SpawnForm = {
  readonly roots: readonly string[]
  readonly agent: string
  readonly command: string
  readonly prompt: string
  readonly name: string
  readonly level: SandboxLevel
  readonly changeset: WorkspaceStrategy
  /** Id of the integration worktree, for that strategy. */
  readonly worktree: string
  readonly boundary: BoundaryLevel
  readonly hosts: string
  readonly memoryMb: string
  readonly cpus: string
  readonly timeoutS: string
}

export const emptyForm: SpawnForm = {
  roots: [''],
  agent: 'command',
  command: '',
  prompt: '',
  name: '',
  level: 1,
  changeset: 'overlay',
  worktree: '',
  boundary: 'readwrite',
  hosts: '',
  memoryMb: '',
  cpus: '',
  timeoutS: '',
}

const given = (text: string) => (text.trim() === '' ? undefined : text.trim())
const rootsOf = (form: SpawnForm) =>
  form.roots.map((root) => root.trim().replace(/(?<=.)\/+$/, '')).filter(Boolean)
export const hostsOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter(Boolean)

/** Only what differs from the defaults of `run` is asked for: a contract nobody wrote stays NULL. */
function contractOf(form: SpawnForm) {
  const hosts = hostsOf(form.hosts)
  return {
    level: form.level === 1 ? undefined : form.level,
    changeset: form.changeset === 'overlay' ? undefined : form.changeset,
    boundary: form.boundary === 'readwrite' ? undefined : form.boundary,
    allowHost: hosts.length === 0 ? undefined : [...hosts],
    memoryMb: given(form.memoryMb),
    cpus: given(form.cpus),
    timeoutS: given(form.timeoutS),
  }
}

export type Filled =
  | { readonly ok: true; readonly input: SpawnInput }
  | {
      readonly ok: false
      readonly missing: 'folder' | 'command' | 'worktree' | 'contract'
      readonly why: string
    }

/** The request the form stands for, or what it lacks. */
export function fill(form: SpawnForm): Filled {
  const roots = rootsOf(form)
  if (roots.length === 0) return { ok: false, missing: 'folder', why: 'Choose a folder first.' }
  const command = commandOf(form.command)
  if (form.agent === 'command' && command.length === 0) {
    return { ok: false, missing: 'command', why: 'Say what to run.' }
  }
  if (form.changeset === 'worktree' && form.worktree === '') {
    return { ok: false, missing: 'worktree', why: 'Choose or create a worktree.' }
  }
  try {
    const spec = contractOfOptions(contractOf(form))
    return {
      ok: true,
      input: {
        agent: form.agent,
        command: form.agent === 'command' ? [...command] : [],
        roots,
        ...(given(form.prompt) === undefined || form.agent === 'command'
          ? {}
          : { prompt: form.prompt.trim() }),
        ...(given(form.name) === undefined ? {} : { name: form.name.trim() }),
        ...(form.changeset === 'worktree' ? { worktree: form.worktree } : {}),
        ...(spec === null ? {} : { sandbox_spec: JSON.stringify(spec) }),
      },
    }
  } catch (error) {
    if (!(error instanceof OrangeryError)) throw error
    return { ok: false, missing: 'contract', why: [error.message, error.hint].filter(Boolean).join('. ') }
  }
}

/** The line that does the same in a terminal. */
export function terminalLine(form: SpawnForm): string {
  const contract = contractOf(form)
  const roots = rootsOf(form)
  const own = form.agent === 'command'
  const option = (name: string, value: string | number | undefined) =>
    value === undefined ? [] : [name, String(value)]
  const words = [
    'orangery',
    ...(own ? ['run'] : ['dispatch', 'spawn', `--agent=${form.agent}`]),
    ...roots.flatMap((root) => ['--dir', root]),
    ...option('--level', contract.level),
    ...option('--changeset', contract.changeset),
    ...option('--worktree', form.changeset === 'worktree' ? given(form.worktree) : undefined),
    ...option('--boundary', contract.boundary),
    ...(contract.allowHost ?? []).flatMap((host) => ['--allow-host', host]),
    ...option('--memory-mb', contract.memoryMb),
    ...option('--cpus', contract.cpus),
    ...option('--timeout-s', contract.timeoutS),
    ...option('--name', given(form.name)),
    ...(own ? ['--', ...commandOf(form.command)] : option('--prompt', given(form.prompt))),
  ]
  return shellLine(words)
}
