import { rmSync } from 'node:fs'
import { lstat, mkdtemp, readdir, realpath, rm, stat } from 'node:fs/promises'
import { homedir, userInfo } from 'node:os'
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
    await sweep(real).catch(() => {})
    const folder = await mkdtemp(join(real, prefix)).catch(() => null)
    if (folder !== null) return folder
  }
  throw new OrangeryError('egress.no_private_folder', 'presets: no folder to ask your tools in', {
    kind: 'preflight',
    hint: 'Others can write to your home or a folder above it: chmod go-w, or name the hosts themselves.',
  })
}

const prefix = '.orangery-preset-'
/** As mkdtemp names them. */
const madeName = /^\.orangery-preset-[A-Za-z0-9]{6}$/
/** No tool is listened to for as long. */
const surelyLeftMs = 600_000

/** What somebody left who was killed meanwhile. */
async function sweep(place: string): Promise<void> {
  for (const name of await readdir(place)) {
    if (!madeName.test(name)) continue
    const folder = join(place, name)
    const found = await lstat(folder).catch(() => null)
    const isOurs = found?.isDirectory() === true && found.uid === process.getuid?.()
    if (isOurs && found.mtimeMs < Date.now() - surelyLeftMs)
      await rm(folder, { recursive: true, force: true }).catch(() => {})
  }
}

const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const inUse = new Set<string>()

/** At once: whoever ends by a signal does nothing later. */
function removeInUse(signal: NodeJS.Signals): void {
  // Whoever else listens decides whether this is the end.
  if (process.listenerCount(signal) > 1) return
  for (const name of endings) process.off(name, removeInUse)
  for (const folder of inUse) rmSync(folder, { recursive: true, force: true })
  process.kill(process.pid, signal)
}

/** A folder in the user's home is not to outlive who made it. */
function removeAtEnding(folder: string): AsyncDisposable {
  if (inUse.size === 0) for (const name of endings) process.on(name, removeInUse)
  inUse.add(folder)
  return {
    async [Symbol.asyncDispose]() {
      await rm(folder, { recursive: true, force: true })
      inUse.delete(folder)
      if (inUse.size === 0) for (const name of endings) process.off(name, removeInUse)
    },
  }
}

/** Nobody but the user and root can put a file into it, or into a folder above it. */
async function isOnlyOurs(folder: string): Promise<boolean> {
  const own = process.getuid?.()
  const { uid, mode } = await stat(folder)
  if ((uid !== own && uid !== 0) || (mode & 0o022) !== 0) return false
  const above = dirname(folder)
  return above === folder || isOnlyOurs(above)
}

/** HOME may name a folder below /tmp; the system still knows the user's own. Not that of one without an account. */
function ownHome(): string | undefined {
  try {
    return userInfo().homedir
  } catch {
    return undefined
  }
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
  const folder = await privateFolder([...places, homedir(), process.env['XDG_RUNTIME_DIR'], ownHome()])
  await using _folder = removeAtEnding(folder)
  const address = `http://127.0.0.1:${port}`
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']
  const proxies = Object.fromEntries(names.map((name) => [name, address]))
  await question.prepare?.(folder)
  const asked: Overheard = { command: question.command(folder, port), port, patienceMs }
  const env = { ...question.env(folder, port), ...proxies, NO_PROXY: '', no_proxy: '', ...entryEnv }
  const command = [...entryCommand('overhear'), JSON.stringify(asked)]
  const ran = await runApart(command, { cwd: folder, env, timeoutMs: patienceMs + 5000 }).catch(() => null)
  return ran?.code === 0 ? heardSchema.parse(JSON.parse(ran.stdout.toString())) : { heard: [], isSlow: false }
}
