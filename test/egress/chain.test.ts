import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ensureRuntimeDir } from '../../src/engine/base/runtime.ts'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeSite } from './servers.ts'

const execute = promisify(execFile)
const orangery = resolve(import.meta.dirname, '../../bin/orangery')
let dir: string
let port: number
const requests: string[] = []
let secret: string | undefined
const web = createServer((request, response) => {
  requests.push(`${request.headers.host ?? ''}${request.url ?? ''}`)
  secret = request.headers.authorization
  response.end('from outside\n')
})

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'egress-chain-'))
  await mkdir(join(dir, 'project'))
  web.listen(0, '127.0.0.1')
  await once(web, 'listening')
  port = (web.address() as AddressInfo).port
})
afterAll(async () => {
  web.close()
  web.closeAllConnections()
  await rm(dir, { recursive: true, force: true })
})

type Ran = { code: number; stdout: string; stderr: string }
const environment = () => ({
  ...process.env,
  ORANGERY_DATA_DIR: join(dir, 'data'),
  XDG_CONFIG_HOME: join(dir, 'config'),
  TEST_SECRET: 's3cret',
})
function run(args: readonly string[], more: Record<string, string> = {}): Promise<Ran> {
  return new Promise((done) => {
    execFile(orangery, args, { cwd: dir, env: { ...environment(), ...more } }, (error, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code), stdout, stderr })
    })
  })
}
const project = () => ['run', '--dir', join(dir, 'project')]

test('a run reaches the host it was allowed, by proxy and without, and no other; the record says so', async () => {
  const summary = join(dir, 'summary.json')
  const script = [
    'curl -sS http://test.example/proxied',
    'curl -sS --noproxy "*" http://test.example/alias',
    'curl -sS http://other.example/',
    'curl -sS --noproxy "*" --max-time 5 http://other.example/ 2>&1',
    `curl -sS --noproxy "*" --max-time 5 http://127.0.0.1:${port}/ 2>&1`,
    `curl -sS http://127.0.0.1:${port}/ --noproxy "" `,
    'curl -sS --noproxy "*" --max-time 5 http://192.0.2.1/ http://192.0.2.2/',
    'curl -sS --noproxy "*" --max-time 5 http://narrow.example/',
    '"$ORANGERY_ASK" show',
  ].join('; ')
  const pin = `test.example=127.0.0.1:${port}`
  const narrow = ['--allow-host', `narrow.example:443=127.0.0.1:${port}`]
  const options = ['--outputs', 'restricted', '--allow-host', pin, ...narrow, '--summary', summary]
  const ran = await run([...project(), ...options, '--', 'sh', '-c', script])
  expect(ran.stdout.split('\n').slice(0, 2)).toEqual(['from outside', 'from outside'])
  expect(ran.stdout).toContain('Orangery does not let this sandbox reach other.example:80')
  expect(ran.stdout).toMatch(/Could not resolve host: other.example/)
  // A program that shows only a number can be asked after: what was refused is told inside too.
  expect(ran.stdout).toMatch(
    /"refused":\[\{"host":"other.example","why":"not in the list of allowed hosts"\}/,
  )
  expect(requests).toEqual(['test.example/proxied', 'test.example/alias'])
  const { sandbox_effective: effective, id } = JSON.parse(await readFile(summary, 'utf8')) as {
    id: string
    sandbox_effective: { network: unknown }
  }
  // Programs that show only a number leave it to us to say what it was.
  expect(ran.stderr).toMatch(/other.example was not reached.*: not in the list of allowed hosts/)
  expect(ran.stderr).toContain('hint: --allow-host other.example')
  expect(effective.network).toMatchObject({
    allowed: [{ host: 'test.example', connections: 2 }],
    denied: [
      { host: 'other.example' },
      { host: '127.0.0.1' },
      { host: 'narrow.example', connections: 1 },
      // Only the kernel heard of these, and it counts.
      { host: '(an address)', connections: 2 },
    ],
  })
  // A port that is not allowed is told as any other denial, to whoever knows no proxy too.
  expect(ran.stdout).toContain('Orangery does not let this sandbox reach narrow.example:80: not in the list')
  const events = await run(['dispatch', 'events', id, '--json'])
  const decided = (JSON.parse(events.stdout) as { event: { type: string } }[])
    .map(({ event }) => event)
    .filter(({ type }) => type === 'EgressDecided')
  // Equal ones that follow each other quickly may be told together.
  for (const expected of [
    { host: 'test.example', port: 80, allowed: true },
    { host: 'other.example', port: 80, allowed: false },
    { host: 'other.example', port: null, allowed: false },
    { host: '127.0.0.1', port, allowed: false },
    { host: '(an address)', port: null, allowed: false },
  ])
    expect(decided).toContainEqual(expect.objectContaining(expected))
})

test('without a word about the network nothing gets out (control: the same command with the host allowed)', async () => {
  requests.length = 0
  const command = ['--', 'curl', '-sSf', '--max-time', '20', 'http://test.example/none']
  const silent = await run([...project(), ...command])
  expect(silent.code).not.toBe(0)
  const named = /test.example was not reached: outputs are none[^]*hint: --allow-host test.example/
  expect(silent.stderr).toMatch(named)
  // The very first thing it does is heard, also by whoever knows no proxy, and can be asked for.
  const summary = join(dir, 'none.json')
  const unproxied = ['--', 'curl', '-sS', '--noproxy', '*', 'http://test.example/none']
  const none = await run([...project(), '--outputs', 'none', '--summary', summary, ...unproxied])
  expect(none.stderr).toMatch(/Could not resolve host: test.example/)
  expect(none.stderr).toMatch(named)
  expect(none.code).not.toBe(0)
  const { id } = JSON.parse(await readFile(summary, 'utf8')) as { id: string }
  const { requests: wished } = JSON.parse((await run(['boundary', 'show', id, '--json'])).stdout) as {
    requests: unknown[]
  }
  expect(wished).toMatchObject([{ to: 'network', hosts: ['test.example'], source: 'broker' }])
  expect(requests).toEqual([])
  const allowed = ['--allow-host', `test.example=127.0.0.1:${port}`]
  expect(await run([...project(), ...allowed, ...command])).toMatchObject({
    code: 0,
    stdout: 'from outside\n',
  })
  expect(requests).toEqual(['test.example/none'])
})

test('a host that was refused is named at once beside what the program prints, which is only a number', async () => {
  const script = 'curl -sS https://other.example/; cat'
  const allowed = ['--outputs', 'restricted', '--', 'sh', '-c', script]
  const running = spawn(orangery, [...project(), ...allowed], { cwd: dir, env: environment() })
  let said = ''
  running.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  const ended = once(running, 'exit')
  try {
    await expect.poll(() => said).toContain('CONNECT tunnel failed, response 403')
    await expect.poll(() => said).toMatch(/^orangery: \S+: other.example was not reached: /m)
    expect(running.exitCode).toBeNull()
  } finally {
    running.stdin.end()
    await ended
  }
  expect(said.match(/was not reached/g)).toHaveLength(1)
})

/** What tries a host of its own name, by whatever way it knows. */
const attempts: Readonly<Record<string, string>> = {
  curl: 'curl -sS https://curl.example/',
  socks: 'curl -sS -x "$ALL_PROXY" https://socks.example/',
  git: 'git ls-remote https://git.example/x.git',
  ssh: 'git ls-remote git@ssh.example:x.git',
  wget: 'wget -nv -O- https://wget.example/',
  npm: 'npm view x --registry https://npm.example/ --fetch-retries 0',
  pip: 'python3 -m pip download --retries 0 --no-cache-dir -d /tmp/pip -i https://pip.example/ x',
  go: 'GOPROXY=https://go.example GOSUMDB=off GOFLAGS=-mod=mod go list -m -versions example.org/x',
  cargo: 'CARGO_NET_RETRY=0 cargo search x --index sparse+https://cargo.example/',
  java: 'java -XX:TieredStopAtLevel=1 /tmp/Fetch.java',
  node: `node -e 'fetch("https://node.example/")'`,
  python: `python3 -c 'import socket; socket.create_connection(("python.example", 5432))'`,
  bash: "bash -c ': </dev/tcp/bash.example/443'",
}

test('every program that is refused a host reads on its own stderr, before its own error, that it was Orangery and which host', async () => {
  const fetch =
    'class F { public static void main(String[] a) throws Exception { new java.net.Socket("java.example", 443); } }'
  const script = Object.entries(attempts).map(
    ([name, attempt]) =>
      `if command -v $(echo ${name} | sed 's/socks/curl/;s/pip/pip3/;s/python/python3/') >/dev/null; then { ${attempt}; } 2>&1 >/dev/null | sed 's/^/${name}> /'; else echo '${name} is not here'; fi`,
  )
  const prepare = `echo '${fetch}' >/tmp/Fetch.java; cd /tmp`
  // Quiet: nothing but what the programs themselves were told.
  const ran = await run([
    ...project(),
    '-q',
    '--outputs',
    'restricted',
    '--',
    'sh',
    '-c',
    [prepare, ...script].join('\n'),
  ])
  for (const name of Object.keys(attempts)) {
    if (ran.stdout.includes(`${name} is not here`)) continue
    const said = ran.stdout.split('\n').filter((line) => line.startsWith(`${name}> `))
    const told = said.findIndex((line) => line.startsWith(`${name}> orangery: ${name}.example`))
    expect(said[told], `${name}: ${said.join('\n')}`).toMatch(
      / was not reached: the list of allowed hosts is empty$/,
    )
    // What the program makes of it comes after.
    expect(said.slice(0, told).join(), name).not.toContain(`${name}.example`)
    expect(said.length, name).toBeGreaterThan(1)
  }
  // What a program prints for others to read is left alone.
  const json = `curl -sS https://curl.example/ >&2; echo '{"ok":true}'`
  expect(await run([...project(), '--outputs', 'restricted', '--', 'sh', '-c', json])).toMatchObject({
    stdout: '{"ok":true}\n',
    stderr: expect.stringMatching(/^orangery: \S+: curl.example was not reached: .*\ncurl: /),
  })
  const merged = await run([...project(), '-q', '--', 'sh', '-c', 'exec 2>&1; curl -s https://curl.example/'])
  expect(merged).toMatchObject({ stdout: '', stderr: '' })
}, 60_000)

type Row = { id: string; status: string }
async function runningId(): Promise<string> {
  const find = async () =>
    (JSON.parse((await run(['dispatch', 'list', '--json'])).stdout) as Row[]).find(
      ({ status }) => status === 'running',
    )?.id
  await expect.poll(find, { timeout: 20_000, interval: 200 }).toBeDefined()
  return (await find()) ?? ''
}

/** Programs that wait for what never comes would go on when a test fails. */
const ending = (id: string): AsyncDisposable => ({
  [Symbol.asyncDispose]: async () => void (await run(['dispatch', 'kill', id])),
})

test("another sandbox's channel is out of reach (control: from outside it leads out)", async () => {
  requests.length = 0
  const allowed = ['--allow-host', `test.example=127.0.0.1:${port}`]
  const first = spawn(orangery, [...project(), ...allowed, '--', 'sleep', '60'], {
    cwd: dir,
    env: environment(),
    stdio: 'ignore',
  })
  const ended = once(first, 'exit')
  try {
    const id = await runningId()
    const socket = join(await ensureRuntimeDir(join(dir, 'data')), `${id}.egress`)
    const script = `import socket
s = socket.socket(socket.AF_UNIX); s.connect(${JSON.stringify(socket)})
s.sendall(b"alias test.example 80\\nGET /stolen HTTP/1.0\\r\\nHost: test.example\\r\\n\\r\\n"); print(s.recv(1000))`
    const other = await run([...project(), '--outputs', 'restricted', '--', 'python3', '-c', script])
    expect(other.code).not.toBe(0)
    expect(requests).toEqual([])
    await new Promise((done) => execFile('python3', ['-c', script], done))
    expect(requests).toEqual(['test.example/stolen'])
  } finally {
    first.kill('SIGTERM')
    await ended
  }
})

test('a host behind a boundary is reached, by the program that is already running, once the boundary is widened', async () => {
  requests.length = 0
  const pin = ['--allow-host', `test.example=127.0.0.1:${port}`, '--boundary', 'readwrite']
  const script =
    'until curl -sf http://test.example/live || curl -sf --noproxy "*" http://test.example/live; do sleep 0.1; done'
  const waiting = run([...project(), ...pin, '--', 'sh', '-c', script])
  const id = await runningId()
  await using _ended = ending(id)
  expect(requests).toEqual([])
  expect(await run(['boundary', 'request', id, 'network', '--reason', 'needs the host'])).toMatchObject({
    code: 0,
  })
  // A preset is spelled out in the request itself: what is approved is what was shown.
  const preset = ['boundary', 'request', id, 'network', '--host', '@npm', '--reason', 'packages', '--json']
  const asked = await run(preset, await npmFor('https://registry.example/'))
  expect(JSON.parse(asked.stdout)).toMatchObject({ status: 'open', hosts: ['registry.example:443'] })
  const near = await run(preset, await npmFor(`http://127.0.0.1:${port}/`))
  expect(near).toMatchObject({ code: 65 })
  expect(near.stderr).toContain('@npm: it leads only to your own machine')
  expect(await run(['boundary', 'approve', id])).toMatchObject({ code: 0 })
  expect(await waiting).toMatchObject({ code: 0, stdout: 'from outside\n' })
  expect(requests).toEqual(['test.example/live'])
})

test('a name that a program without a proxy asked for becomes a request, and resolves for it once that is approved', async () => {
  const script = 'until getent hosts wanted.example; do sleep 0.2; done'
  const spawn = ['dispatch', 'spawn', '--dir', join(dir, 'project'), '--outputs', 'restricted', '--']
  const id = (await run([...spawn, 'sh', '-c', script])).stdout.trim()
  await using _ended = ending(id)
  const requests = async () =>
    (JSON.parse((await run(['boundary', 'show', id, '--json'])).stdout) as { requests: unknown[] }).requests
  await expect
    .poll(requests, { timeout: 30_000, interval: 500 })
    .toMatchObject([{ hosts: ['wanted.example'], source: 'broker', status: 'open' }])
  expect(await run(['boundary', 'approve', id])).toMatchObject({ code: 0 })
  expect(await run(['dispatch', 'wait', id])).toMatchObject({ code: 0 })
})

test("a secret of the user's config goes to its host and not into the sandbox; without it the run does not start", async () => {
  const folder = join(dir, 'config', 'orangery')
  const configure = async (env: string) => {
    const credential = { hosts: ['test.example'], value: 'Bearer {secret}', env, tls: false }
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'config.json'), JSON.stringify({ sandboxCredentials: [credential] }))
  }
  const command = ['--allow-host', `test.example=127.0.0.1:${port}`, '--', 'sh', '-c']
  const script =
    'curl -sS -H "Authorization: mine" http://test.example/secret; env; cat /proc/*/environ 2>/dev/null'
  await configure('TEST_SECRET')
  const ran = await run([...project(), ...command, script])
  expect(ran).toMatchObject({ code: 0 })
  expect(secret).toBe('Bearer s3cret')
  expect(ran.stdout).toContain('from outside')
  expect(ran.stdout).not.toContain('s3cret')
  await configure('NO_SUCH_SECRET')
  const refused = await run([...project(), ...command, 'true'])
  expect(refused.code).toBe(69)
  expect(refused.stderr).toContain('the variable NO_SUCH_SECRET holds none')
  await rm(folder, { recursive: true })
})

test("where the user's config allows it, a secret goes into the agent's own TLS; its key and the authority's never come near", async () => {
  await using site = await makeSite(['api.example'])
  site.put('/hello', 'over TLS\n')
  const folder = join(dir, 'config', 'orangery')
  const configure = async (intercept: boolean) => {
    const credential = { hosts: ['api.example'], value: 'Bearer {secret}', env: 'TEST_SECRET', intercept }
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'config.json'), JSON.stringify({ sandboxCredentials: [credential] }))
  }
  const script = 'curl -sS https://api.example/hello; ls /run/orangery; cat /run/orangery/*; env'
  const pin = `api.example:443=127.0.0.1:${site.https}`
  const command = ['--allow-host', pin, '--', 'sh', '-c', script]
  const trusting = { NODE_EXTRA_CA_CERTS: site.authority }
  await configure(true)
  const report = await run(['preflight', '--dir', join(dir, 'project'), '--allow-host', pin, '--', 'true'])
  expect(report.stdout).toContain('TLS to these hosts is opened')
  const ran = await run([...project(), ...command], trusting)
  expect(ran.stdout).toContain('over TLS\nauthorities.jks\nauthorities.pem\nauthority.pem\n')
  expect(site.secrets).toEqual(['Bearer s3cret'])
  expect(ran.stdout).not.toMatch(/s3cret|PRIVATE KEY/)
  const kept = await execute('grep', ['-rlE', 's3cret|PRIVATE KEY', join(dir, 'data')]).catch(() => ({
    stdout: '',
  }))
  expect(kept.stdout).toBe('')
  await configure(false)
  const closed = await run([...project(), ...command], trusting)
  expect(closed.stdout).not.toContain('CERTIFICATE')
  expect(site.secrets).toEqual(['Bearer s3cret'])
  await rm(folder, { recursive: true })
})

/** An npm that is configured for a registry. */
async function npmFor(registry: string): Promise<Record<string, string>> {
  const bin = await mkdtemp(join(dir, 'bin-'))
  await writeFile(join(bin, 'npm'), `#!/bin/sh\necho '{"registry":"${registry}"}'\n`, { mode: 0o755 })
  return { PATH: `${bin}:${process.env['PATH'] ?? ''}` }
}

test('a preset is said in full before it is granted, in a run, a spawn and a preflight', async () => {
  const more = await npmFor(`http://registry.example:4873/`)
  const said = '@npm means registry.example:4873'
  const told =
    '@npm: tools inside are told npm_config_globalconfig=/run/orangery/npmrc, /run/orangery/npmrc: http://registry.example:4873/'
  const stderr = `orangery: ${said}\norangery: ${told}\n`
  const pin = ['--allow-host', `registry.example:4873=127.0.0.1:${port}`]
  const allowed = [...pin, '--allow-host', '@npm', '--', 'sh', '-c']
  const script = 'curl -sS http://registry.example:4873/preset; cat $npm_config_globalconfig'
  const ran = await run([...project(), ...allowed, script], more)
  const stdout = 'from outside\nregistry=http://registry.example:4873/\n'
  expect(ran).toMatchObject({ code: 0, stdout, stderr })
  // What is on this machine only the user's own pin opens.
  const home = await run(
    [...project(), '--allow-host', '@npm', '--', 'true'],
    await npmFor('http://localhost:1/'),
  )
  expect(home).toMatchObject({ code: 65, stderr: expect.stringContaining('only to your own machine') })
  const dirs = ['--dir', join(dir, 'project')]
  const spawned = await run(['dispatch', 'spawn', '--wait', ...dirs, ...allowed, 'true'], more)
  expect(spawned).toMatchObject({ code: 0, stderr })
  expect((await run(['preflight', ...dirs, ...allowed, 'true'], more)).stdout).toContain(said)
})

test("a run goes out through the proxy of the user's own environment, and the report says so", async () => {
  requests.length = 0
  const proxy = `http://ada:secret@127.0.0.1:${port}`
  const more = {
    XDG_CONFIG_HOME: join(dir, 'behind-a-proxy'),
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: '',
    https_proxy: '',
    NO_PROXY: '',
    no_proxy: '',
  }
  const allowed = ['--allow-host', 'nowhere.example', '--', 'sh', '-c']
  const script = 'curl -sS http://nowhere.example/a; curl -sS --noproxy "*" http://nowhere.example/b; env'
  // A name that nobody here knows the address of is not handed on by itself.
  const refused = await run([...project(), ...allowed, script], more)
  expect(refused.stdout).toContain('your proxy is asked for addresses only (sandboxProxyResolves')
  expect(requests).toEqual([])
  const checked = await run(['preflight', '--dir', join(dir, 'project'), ...allowed, 'true'], more)
  expect(checked.stdout).toContain('names are resolved here')
  const folder = join(more.XDG_CONFIG_HOME, 'orangery')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'config.json'), JSON.stringify({ sandboxProxyResolves: true }))
  const ran = await run([...project(), ...allowed, script], more)
  expect(requests).toEqual([
    'nowhere.examplehttp://nowhere.example/a',
    'nowhere.examplehttp://nowhere.example/b',
  ])
  expect(ran.stdout).not.toContain('secret')
  const report = await run(['preflight', '--dir', join(dir, 'project'), ...allowed, 'true'], more)
  expect(report.stdout).toContain(
    `connections go out through http://127.0.0.1:${port}, as your environment says; it says where a name leads`,
  )
})
