import { mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { OrangeryError } from '../../../shared/errors.ts'
import { entryCommand, entryEnv } from '../../base/entry.ts'
import { runApart } from './apart.ts'

export type Question = {
  /** Makes what the tool needs to have something to ask for; it runs in this folder. */
  readonly prepare?: (folder: string) => Promise<void>
  readonly command: (folder: string, port: number) => readonly [string, ...string[]]
  readonly env: (folder: string, port: number) => Readonly<Record<string, string>>
}

/** Where a tool runs: the first of these that nobody else can put anything above. */
export type Places = readonly (string | undefined)[]

/**
 * cargo, rustup and Maven look for configuration, which may name programs to run, in every folder above: in a
 * shared one (`/tmp`) that would be anybody's. (escape: planted-config)
 */
export async function privateFolder(places: Places): Promise<string> {
  for (const place of places) {
    const real = place === undefined ? null : await realpath(place).catch(() => null)
    if (real === null || !(await isOnlyOurs(real))) continue
    const folder = await mkdtemp(join(real, '.orangery-preset-')).catch(() => null)
    if (folder !== null) return folder
  }
  throw new OrangeryError('egress.no_private_folder', 'presets: no folder to ask your tools in', {
    kind: 'preflight',
    hint: 'Others can write to your home or a folder above it: chmod go-w, or name the hosts themselves.',
  })
}

/** Nobody but the user and root can put a file into it, or into a folder above it. */
async function isOnlyOurs(folder: string): Promise<boolean> {
  const own = process.getuid?.()
  const { uid, mode } = await stat(folder)
  if ((uid !== own && uid !== 0) || (mode & 0o022) !== 0) return false
  const above = dirname(folder)
  return above === folder || isOnlyOurs(above)
}

const usualPatienceMs = 20_000
/** Nobody else is in that network: any will do. */
const port = 3128

/** What the program in the tool's network is told. */
export type Overheard = {
  readonly command: readonly string[]
  readonly port: number
  readonly patienceMs: number
}
const heardSchema = z.object({ heard: z.array(z.string()), isSlow: z.boolean() })
/** What was heard, and whether the tool had to be ended. */
export type Heard = z.infer<typeof heardSchema>

/**
 * Lets a tool ask for something through a proxy of ours that only listens and refuses: the hosts it wanted are
 * those it is configured for, whatever way it was configured. Both are alone in a network of their own.
 */
export async function overhear(
  question: Question,
  places: Places,
  patienceMs = usualPatienceMs,
): Promise<Heard> {
  const folder = await privateFolder([...places, homedir()])
  const address = `http://127.0.0.1:${port}`
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']
  const proxies = Object.fromEntries(names.map((name) => [name, address]))
  try {
    await question.prepare?.(folder)
    const asked: Overheard = { command: question.command(folder, port), port, patienceMs }
    const env = { ...question.env(folder, port), ...proxies, NO_PROXY: '', no_proxy: '', ...entryEnv }
    const command = [...entryCommand('overhear'), JSON.stringify(asked)]
    const ran = await runApart(command, { cwd: folder, env, timeoutMs: patienceMs + 5000 }).catch(() => null)
    return ran?.code === 0
      ? heardSchema.parse(JSON.parse(ran.stdout.toString()))
      : { heard: [], isSlow: false }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
