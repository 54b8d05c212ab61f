import { once } from 'node:events'
import { createServer } from 'node:http'
import { run } from '../../base/process.ts'
import { parseAuthority, showTarget } from '../rules/names.ts'
import type { Heard, Overheard } from './overhear.ts'

// Runs in a network namespace of its own, on plain Node: a proxy that only listens, and the tool that asks it.
const { command, port, patienceMs } = JSON.parse(process.argv[2] ?? '{}') as Overheard
const heard = new Set<string>()
const hear = (authority: string, usualPort: number | null) => {
  const target = parseAuthority(authority, usualPort)
  if (target !== null) heard.add(showTarget(target))
}
const proxy = createServer((request, response) => {
  const match = /^http:\/\/([^/?#]+)/i.exec(request.url ?? '')
  const authority = match?.[1] ?? ''
  if (match !== null) hear(authority.slice(authority.lastIndexOf('@') + 1), 80)
  response.writeHead(403, { Connection: 'close' }).end()
})
proxy.on('connect', (request, socket) => {
  hear(request.url ?? '', null)
  socket.on('error', () => {})
  socket.end('HTTP/1.1 403 Only listening\r\nConnection: close\r\n\r\n')
})
proxy.listen(port, '127.0.0.1')
await once(proxy, 'listening')
const { ELECTRON_RUN_AS_NODE: _own, ...env } = process.env as Record<string, string>
// A tool that is not there, or fails, has still asked for what was heard.
const ran = await run(command[0] ?? '', command.slice(1), { env, timeoutMs: patienceMs }).catch(() => null)
const answer: Heard = { heard: [...heard].sort(), isSlow: ran?.signal === 'SIGKILL' }
process.stdout.write(JSON.stringify(answer), () => process.exit(0))
