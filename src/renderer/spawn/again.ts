import type { DispatchDetail } from '../../shared/dispatch.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { boundaryLevels } from '../../shared/boundary.ts'
import { parseLevel, type SandboxLevel } from '../../shared/level.ts'
import { shellLine } from '../../shared/shellLine.ts'
import { rootModes, workspaceStrategies } from '../../shared/spec.ts'
import { commandOf } from './command.ts'
import { emptyForm, type SpawnForm } from './form.ts'

/** A command as somebody would type it: a shell's script by itself, where typing it means the same. */
export function typedLine(command: readonly string[]): string {
  const [shell, option, script, ...rest] = command
  if (shell === 'sh' && option === '-c' && script !== undefined && rest.length === 0) {
    const again = commandOf(script)
    if (again.length === 3 && again.every((word, at) => word === command[at])) return script
  }
  return shellLine(command)
}

const longestOffer = 160

/** Commands that ran before, those of the folder first: each once, the latest first, and only what fits in a line. */
export function recentCommands(rows: readonly DispatchRow[], folder: string): readonly string[] {
  const own = rows.filter((row) => row.agent === 'command' && row.command.length > 0)
  const here = own.filter((row) => row.roots[0] === folder)
  const lines = [...here, ...own.filter((row) => row.roots[0] !== folder)].map((row) =>
    typedLine(row.command),
  )
  return [...new Set(lines)].filter((line) => line.length <= longestOffer && !line.includes('\n'))
}

const fields = new Set([
  'level',
  'isolation',
  'changeset',
  'boundary',
  'outputs',
  'limits',
  'roots',
  'root_modes',
])
const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : [])
const object = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
const text = (value: unknown) => (typeof value === 'number' ? String(value) : '')

/** The form that asks for the same once more; `level`: but at that level. */
export function formOf(detail: DispatchDetail, level?: SandboxLevel): SpawnForm {
  const spec = object(detail.sandbox_spec)
  const outputs = object(spec['outputs'])
  const limits = object(spec['limits'])
  const pins = object(outputs['pins'])
  const asked = parseLevel(String(spec['level'] ?? spec['isolation'] ?? ''))
  const hosts = texts(outputs['allow']).map((host) =>
    pins[host] === undefined ? host : `${host}=${pins[host]}`,
  )
  const { memory_mb, cpus, pids, disk_mb, timeout_s, ...otherLimits } = limits
  const { mode, allow: _allow, pins: _pins, ...otherOutputs } = outputs
  // Lists beyond what the form holds, or a mode it cannot say: then the whole of it is kept as it was.
  const isPlain =
    Object.keys(otherOutputs).every((name) => texts(otherOutputs[name]).length === 0) &&
    (mode === undefined || mode === 'restricted') &&
    Object.keys(pins).every((host) => texts(outputs['allow']).includes(host))
  const modes = object(spec['root_modes'])
  const strayModes = Object.entries(modes).filter(([root]) => !detail.roots.includes(root))
  const kept = Object.entries(spec).filter(([name]) => !fields.has(name))
  return {
    ...emptyForm,
    roots: detail.roots.length === 0 ? [''] : detail.roots,
    rootModes: detail.roots.map((root) => rootModes.find((mode) => mode === modes[root]) ?? 'rw'),
    agent: detail.agent,
    command: detail.agent === 'command' ? typedLine(detail.command) : '',
    prompt: detail.prompt ?? '',
    name: detail.name ?? '',
    level: level ?? asked ?? 1,
    changeset:
      workspaceStrategies.find((strategy) => strategy === spec['changeset'] && strategy !== 'worktree') ??
      'overlay',
    boundary: boundaryLevels.find((each) => each === spec['boundary']) ?? null,
    hosts: isPlain ? hosts.join(' ') : '',
    memoryMb: text(memory_mb),
    cpus: text(cpus),
    pids: text(pids),
    diskMb: text(disk_mb),
    timeoutS: text(timeout_s),
    extra: {
      ...Object.fromEntries(kept),
      ...(strayModes.length === 0 ? {} : { root_modes: modes }),
      ...(isPlain || Object.keys(outputs).length === 0 ? {} : { outputs }),
      ...(Object.keys(otherLimits).length === 0 ? {} : { limits: otherLimits }),
    },
  }
}
