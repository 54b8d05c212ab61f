import { existsSync } from 'node:fs'
import { OrangeryError } from '../../../shared/errors.ts'
import { run, type RunResult } from '../../base/process.ts'

/** Services on this machine that would ask the network on behalf of who asks them. */
const askers = ['/run/systemd/resolve', '/run/nscd', '/run/dbus']

const inFront = () => [
  '--die-with-parent',
  '--dev-bind',
  '/',
  '/',
  '--unshare-net',
  ...askers.flatMap((path) => (existsSync(path) ? ['--tmpfs', path] : [])),
  '--',
]

export type Asked = {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly timeoutMs: number
}

/**
 * Runs a tool of the user's as it is, but in a network of its own with nobody else in it: whatever proxy or mirror its
 * own files name, nothing of what it asks leaves the machine. (escape: preset-leak)
 */
export const runApart = (command: readonly string[], asked: Asked): Promise<RunResult> =>
  run('bwrap', [...inFront(), ...command], asked)

/** Says so where no tool can be asked at all. */
export async function checkApart(env: Readonly<Record<string, string>>): Promise<void> {
  const tried = await runApart(['true'], { cwd: '/', env, timeoutMs: 5000 }).catch(() => null)
  if (tried?.code === 0) return
  throw new OrangeryError(
    'egress.no_network_apart',
    'presets: your tools cannot be asked without a network',
    {
      kind: 'preflight',
      hint: 'They run in a network namespace of their own, which bubblewrap could not make here. Name the hosts themselves.',
    },
  )
}
