import { execFile } from 'node:child_process'
import { readFile, writeFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  interceptedNames,
  javaStore,
  makeAuthority,
  trustEnvironment,
  usualAuthorities,
} from '../../src/engine/egress/index.ts'
import { makeCell, type Cell } from './harness.ts'
import { findProgram, makeSite, sha, pack, type Site } from './servers.ts'

// Every program here speaks TLS of its own to a host whose TLS is opened, knows no secret, and is told whom to trust
// by its environment alone. The oracle is the server's log of what arrived.
const execute = promisify(execFile)
let site: Site
let cell: Cell
let env: Record<string, string>

beforeAll(async () => {
  site = await makeSite(['api.example', 'web.example'])
  const credentials = [
    { hosts: ['api.example'], header: 'Authorization', value: 'Bearer s3cret', intercept: true },
  ]
  const authority = await makeAuthority(interceptedNames(credentials))
  const authorities = [await readFile(site.authority, 'utf8')]
  const to = `127.0.0.1:${site.https}`
  cell = await makeCell(
    { pins: { 'api.example': to, 'web.example': to } },
    { credentials, authority, authorities },
  )
  const [all, own, java] = ['all.pem', 'own.pem', 'all.jks'].map((name) => join(cell.dir, name))
  const trusted = [...usualAuthorities(), ...authorities, authority.certificate]
  await writeFile(own!, authority.certificate)
  await writeFile(all!, trusted.join('\n'))
  await writeFile(java!, javaStore(trusted))
  env = trustEnvironment(all!, own!, java!)
  site.put('/hello', 'hello from outside\n')
})
afterAll(async () => {
  await cell[Symbol.asyncDispose]()
  await site[Symbol.asyncDispose]()
})

async function runs(command: readonly string[], more: Record<string, string> = {}, proxied = true) {
  site.secrets.length = 0
  const cwd = join(cell.dir, `work-${command[0] ?? ''}-${proxied}`)
  await mkdir(cwd, { recursive: true })
  const ran = await cell.run(command, { proxied, cwd, env: { ...env, ...more } })
  expect(ran, ran.stderr).toMatchObject({ code: 0 })
  expect(site.secrets.length).toBeGreaterThan(0)
  expect(new Set(site.secrets)).toEqual(new Set(['Bearer s3cret']))
  return ran.stdout
}
const has = async (program: string, skip: (note: string) => void) => {
  if ((await findProgram(program)) === null) skip(`no ${program} on this machine`)
}

test('curl, with the proxy and without, and another host is not opened', async () => {
  for (const proxied of [true, false]) {
    expect(await runs(['curl', '-sS', 'https://api.example/hello'], {}, proxied)).toBe('hello from outside\n')
  }
  const shown = await cell.run(['curl', '-sSv', '-o', '/dev/null', 'https://web.example/hello'], { env })
  expect(shown.stderr).toContain('Test authority')
  expect(site.secrets.at(-1)).toBeUndefined()
})

test('a server that resets in the middle breaks the opened TLS off at once', async () => {
  for (const proxied of [true, false]) {
    const command = ['curl', '-sS', '--max-time', '20', 'https://api.example/breaks']
    const broken = await cell.run(command, { env, proxied })
    expect(broken.stdout).toBe('partial')
    // Of curl: 56 is a reset, 28 a wait in vain.
    expect(broken.code, broken.stderr).toBe(56)
  }
})

test('git', async () => {
  const repository = join(site.dir, 'opened')
  const git = (...args: string[]) =>
    execute('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: repository })
  await mkdir(repository)
  await git('init', '-q')
  await git('commit', '-q', '--allow-empty', '-m', 'first')
  await git('update-server-info')
  site.folder('/opened.git/', join(repository, '.git'))
  const listed = await runs(['git', 'ls-remote', 'https://api.example/opened.git'], {
    GIT_CONFIG_NOSYSTEM: '1',
  })
  expect(listed).toContain('refs/heads/')
})

test('Python and Node', async () => {
  const python =
    'import urllib.request; print(urllib.request.urlopen("https://api.example/hello").read().decode())'
  expect(await runs(['python3', '-c', python])).toContain('hello from outside')
  const node = 'fetch("https://api.example/hello").then((r) => r.text()).then((t) => process.stdout.write(t))'
  expect(await runs([process.execPath, '-e', node])).toContain('hello from outside')
  expect(await runs([process.execPath, '-e', node], {}, false)).toContain('hello from outside')
})

test('npm', async ({ skip }) => {
  await has('npm', skip)
  const versions = {
    '1.0.0': { name: 'opened', version: '1.0.0', dist: { tarball: 'https://api.example/x.tgz' } },
  }
  const document = { name: 'opened', 'dist-tags': { latest: '1.0.0' }, versions }
  site.put('/opened', JSON.stringify(document), 'application/json')
  const flags = [
    '--registry',
    'https://api.example/',
    '--no-update-notifier',
    '--cache',
    join(cell.dir, 'npm'),
  ]
  expect(await runs(['npm', 'view', 'opened', 'version', ...flags])).toContain('1.0.0')
})

test('pip', async ({ skip }) => {
  await has('pip3', skip)
  site.put('/simple/opened/', '<a href="/opened-2.0.tar.gz">opened-2.0.tar.gz</a>', 'text/html')
  const quiet = ['--no-cache-dir', '--disable-pip-version-check', '--no-input']
  const index = ['--index-url', 'https://api.example/simple']
  const listed = await runs(['python3', '-m', 'pip', 'index', 'versions', 'opened', ...index, ...quiet], {
    PIP_CONFIG_FILE: '/dev/null',
  })
  expect(listed).toContain('2.0')
})

test('cargo', async ({ skip }) => {
  await has('cargo', skip)
  const crate = await pack(site.dir, 'opened-1.0.0.crate.tar.gz', {
    'opened-1.0.0/Cargo.toml': '[package]\nname = "opened"\nversion = "1.0.0"\nedition = "2021"\n',
    'opened-1.0.0/src/lib.rs': '\n',
  })
  site.put('/index/config.json', JSON.stringify({ dl: 'https://api.example/dl/{crate}-{version}.crate' }))
  site.put('/dl/opened-1.0.0.crate', crate)
  const entry = {
    name: 'opened',
    vers: '1.0.0',
    deps: [],
    cksum: sha('sha256', crate),
    features: {},
    yanked: false,
  }
  site.put('/index/op/en/opened', `${JSON.stringify(entry)}\n`)
  const cwd = join(cell.dir, 'work-cargo-true')
  await mkdir(join(cwd, 'src'), { recursive: true })
  await writeFile(join(cwd, 'src/main.rs'), 'fn main() {}\n')
  await writeFile(
    join(cwd, 'Cargo.toml'),
    '[package]\nname = "x"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nopened = { version = "1", registry = "local" }\n',
  )
  await runs(['cargo', 'fetch', '-q'], {
    RUSTUP_HOME: process.env['RUSTUP_HOME'] ?? join(process.env['HOME'] ?? '/root', '.rustup'),
    CARGO_HOME: join(cwd, 'home'),
    CARGO_REGISTRIES_LOCAL_INDEX: 'sparse+https://api.example/index/',
  })
})

test('go', async ({ skip }) => {
  await has('go', skip)
  site.put('/example.org/opened/@v/list', 'v1.0.0\n')
  site.put('/example.org/opened/@v/v1.0.0.info', '{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}')
  site.put('/example.org/opened/@v/v1.0.0.mod', 'module example.org/opened\n')
  const folder = join(cell.dir, 'go')
  const listed = await runs(['go', 'list', '-m', '-versions', 'example.org/opened'], {
    GOPROXY: 'https://api.example',
    GOSUMDB: 'off',
    GOFLAGS: '-mod=mod',
    GOPATH: folder,
    GOCACHE: join(folder, 'cache'),
  })
  await execute('chmod', ['-R', 'u+w', folder])
  expect(listed).toContain('v1.0.0')
})

test('Java, by a store of its own making; without it, it refuses, nothing is sent and that is on record', async ({
  skip,
}) => {
  await has('java', skip)
  const source = join(cell.dir, 'Opened.java')
  await writeFile(
    source,
    `import java.net.*; public class Opened { public static void main(String[] args) throws Exception {
  try { System.out.print(new String(new URL("https://api.example/hello").openStream().readAllBytes())); }
  catch (javax.net.ssl.SSLException e) { System.out.print("refused"); } } }`,
  )
  site.secrets.length = 0
  const java = ['java', '-XX:TieredStopAtLevel=1', source]
  expect(await runs(java)).toBe('hello from outside\n')
  site.secrets.length = 0
  const ran = await cell.run(java, { env: { ...env, JAVA_TOOL_OPTIONS: '' } })
  expect(ran.stdout, ran.stderr).toBe('refused')
  expect(site.secrets).toEqual([])
  expect(cell.decisions.at(-1)).toMatchObject({ host: 'api.example', allowed: false })
  expect(cell.decisions.at(-1)?.why).toContain('the program refused our TLS')
})
