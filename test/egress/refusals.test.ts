import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { proxyPort } from '../../src/engine/base/sandbox.ts'
import { makeCell, type Cell } from './harness.ts'
import { has, rustHomes } from './servers.ts'

let cell: Cell
beforeAll(async () => {
  cell = await makeCell({ mode: 'restricted', pins: { 'web.example': '127.0.0.1:1' } })
})
afterAll(() => cell[Symbol.asyncDispose]())

/** What a program shows of a refusal, as docs/network.md says: the text, a number, or that the name is unknown. */
const text = 'Orangery does not let this sandbox reach other.example'
const url = 'https://other.example/x'
const refusals: readonly (readonly [
  shown: string,
  program: string,
  command: readonly string[],
  says: string,
])[] = [
  ['curl, plain', 'curl', ['-sS', 'http://other.example/'], text],
  ['curl over TLS', 'curl', ['-sS', url], 'CONNECT tunnel failed, response 403'],
  ['curl over TLS, talkative', 'curl', ['-sSv', url], text],
  [
    'curl over SOCKS',
    'curl',
    ['-sS', '-x', `socks5h://127.0.0.1:${proxyPort}`, url],
    'connection to other.example. (2)',
  ],
  ['curl without the proxy', 'curl', ['-sS', '--noproxy', '*', url], 'Could not resolve host: other.example'],
  ['wget', 'wget', ['-O-', url], text],
  ['git, plain', 'git', ['ls-remote', 'http://other.example/x.git'], `remote: ${text}`],
  [
    'git over https',
    'git',
    ['ls-remote', url],
    "'https://other.example/x/': CONNECT tunnel failed, response 403",
  ],
  [
    'git over ssh',
    'git',
    ['ls-remote', 'git@other.example:x.git'],
    'Could not resolve hostname other.example',
  ],
  ['npm', 'npm', ['view', 'x', '--registry', 'https://other.example/', '--fetch-retries', '0'], text],
  ['python', 'python3', ['-c', `import urllib.request as u; u.urlopen("${url}")`], text],
  ['go', 'go', ['list', '-m', '-versions', 'example.org/x'], text],
  [
    'cargo',
    'cargo',
    ['search', 'x', '--index', 'sparse+https://other.example/'],
    'CONNECT tunnel failed, response 403',
  ],
  ['cargo, plain', 'cargo', ['search', 'x', '--index', 'sparse+http://other.example/'], text],
  [
    'node, by fetch',
    process.execPath,
    ['-e', `fetch("${url}").catch((error) => console.log(error.cause))`],
    'Proxy response (403) !== 200 when HTTP Tunneling',
  ],
  [
    'node, by fetch, plain',
    process.execPath,
    ['-e', 'fetch("http://other.example/").catch((error) => console.log(error.cause.cause))'],
    'Proxy response (403) !== 200 when HTTP Tunneling',
  ],
  [
    'node, by https',
    process.execPath,
    ['-e', `require("https").get("${url}").on("error", (error) => console.log(error.message))`],
    text,
  ],
  [
    'pip',
    'python3',
    ['-m', 'pip', 'download', '--isolated', '--retries', '1', '--no-cache-dir', '-i', url, 'x'],
    text,
  ],
  ['psql', 'psql', ['-h', 'other.example'], 'could not translate host name "other.example"'],
]
test.for(refusals)(
  '%s is refused at once and shows what the docs say',
  async ([, program, command, says], { skip }) => {
    await has(program, skip)
    const folder = join(cell.dir, `refused-${program}`)
    const env = {
      ...rustHomes(),
      CARGO_HOME: folder,
      CARGO_NET_RETRY: '0',
      GOPROXY: 'https://other.example',
      GOSUMDB: 'off',
      GOFLAGS: '-mod=mod',
      GOPATH: folder,
      GOCACHE: join(folder, 'cache'),
    }
    const before = cell.decisions.length
    const { stdout, stderr } = await cell.run([program, ...command], { env })
    expect(stdout + stderr).toContain(says)
    // Whatever it shows, the attempt is on record.
    expect(cell.decisions.slice(before)).toContainEqual(
      expect.objectContaining({ host: 'other.example', allowed: false }),
    )
  },
)
