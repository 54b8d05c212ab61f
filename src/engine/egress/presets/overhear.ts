import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../base/process.ts'
import { parseAuthority, showTarget } from '../names.ts'

export type Question = {
  /** Makes what the tool needs to have something to ask for; it runs in this folder. */
  readonly prepare?: (folder: string) => Promise<void>
  readonly command: (folder: string, port: number) => readonly [string, ...string[]]
  readonly env: (folder: string) => Readonly<Record<string, string>>
}

const patienceMs = 20_000

/**
 * Lets a tool ask for something through a proxy of ours that only listens and refuses: the hosts it wanted are
 * those it is configured for, whatever way it was configured. Nothing leaves the machine.
 */
export async function overhear(question: Question): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-preset-'))
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
    await run(file, args, { cwd: folder, env, timeoutMs: patienceMs })
    return [...heard].sort()
  } finally {
    proxy.close()
    proxy.closeAllConnections()
    await rm(folder, { recursive: true, force: true })
  }
}
