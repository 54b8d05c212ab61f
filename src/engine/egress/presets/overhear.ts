import { once } from 'node:events'
import { mkdtemp, realpath, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { run } from '../../base/process.ts'
import { parseAuthority, showTarget } from '../names.ts'

export type Question = {
  /** Makes what the tool needs to have something to ask for; it runs in this folder. */
  readonly prepare?: (folder: string) => Promise<void>
  readonly command: (folder: string, port: number) => readonly [string, ...string[]]
  readonly env: (folder: string) => Readonly<Record<string, string>>
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

const patienceMs = 20_000

/**
 * Lets a tool ask for something through a proxy of ours that only listens and refuses: the hosts it wanted are
 * those it is configured for, whatever way it was configured. Nothing leaves the machine.
 */
export async function overhear(question: Question, places: Places): Promise<string[]> {
  const folder = await privateFolder([...places, homedir()])
  const heard = new Set<string>()
  const hear = (authority: string, port: number | null) => {
    const target = parseAuthority(authority, port)
    if (target !== null) heard.add(showTarget(target))
  }
  const proxy = createServer((request, response) => {
    const match = /^http:\/\/([^/?#]+)/i.exec(request.url ?? '')
    if (match !== null) hear(match[1] ?? '', 80)
    response.writeHead(403, { Connection: 'close' }).end()
  })
  proxy.on('connect', (request, socket) => {
    hear(request.url ?? '', null)
    socket.on('error', () => {})
    socket.end('HTTP/1.1 403 Only listening\r\nConnection: close\r\n\r\n')
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as AddressInfo
  const address = `http://127.0.0.1:${port}`
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']
  const proxies = Object.fromEntries(names.map((name) => [name, address]))
  try {
    await question.prepare?.(folder)
    const [file, ...args] = question.command(folder, port)
    const env = { ...question.env(folder), ...proxies, NO_PROXY: '', no_proxy: '' }
    // A tool that is not there, or fails, has still asked for what was heard.
    await run(file, args, { cwd: folder, env, timeoutMs: patienceMs }).catch(() => null)
    return [...heard].sort()
  } finally {
    proxy.close()
    proxy.closeAllConnections()
    await rm(folder, { recursive: true, force: true })
  }
}
