import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeCell, type Cell } from './harness.ts'
import { has, makeSite, pack, rustHomes, sha, type Site } from './servers.ts'
import { startSshServer } from './sshServer.ts'

const execute = promisify(execFile)
const names = [
  'web.example',
  'npm.example',
  'pip.example',
  'crates.example',
  'go.example',
  'git.example',
  'java.example',
]
let site: Site
let cell: Cell

beforeAll(async () => {
  site = await makeSite(names)
  const pins = Object.fromEntries(
    names.flatMap((name) => [
      [`${name}:80`, `127.0.0.1:${site.http}`],
      [`${name}:443`, `127.0.0.1:${site.https}`],
    ]),
  )
  cell = await makeCell({
    mode: 'restricted',
    pins: { ...pins, 'denied.example': `127.0.0.1:${site.http}` },
    deny: ['denied.example'],
  })
  site.put('/hello', 'hello from outside\n')
})
afterAll(async () => {
  await cell[Symbol.asyncDispose]()
  await site[Symbol.asyncDispose]()
})

const ways = [
  { way: 'by proxy variables', proxied: true },
  { way: 'without them', proxied: false },
] as const

describe.each(ways)('an allowed host is reached $way', ({ proxied }) => {
  test('by curl, plain and over TLS', async () => {
    for (const url of ['http://web.example/hello', 'https://web.example/hello']) {
      const ran = await cell.run(['curl', '-sS', '--cacert', site.authority, url], { proxied })
      expect(ran).toMatchObject({ code: 0, stdout: 'hello from outside\n' })
    }
  })

  test('by git over https', async () => {
    const repository = join(site.dir, `repo-${proxied}`)
    await mkdir(repository)
    await writeFile(join(repository, 'file'), 'content\n')
    const git = (...args: string[]) =>
      execute('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd: repository })
    await git('init', '-q')
    await git('add', '.')
    await git('commit', '-qm', 'first')
    await git('update-server-info')
    site.folder(`/repo-${proxied}.git/`, join(repository, '.git'))
    const target = join(cell.dir, `clone-${proxied}`)
    const ran = await cell.run(['git', 'clone', '-q', `https://git.example/repo-${proxied}.git`, target], {
      proxied,
      env: { GIT_SSL_CAINFO: site.authority, GIT_CONFIG_NOSYSTEM: '1' },
    })
    expect(ran).toMatchObject({ code: 0 })
    expect((await execute('cat', [join(target, 'file')])).stdout).toBe('content\n')
  })

  test('by npm', async ({ skip }) => {
    await has('npm', skip)
    const manifest = { name: 'small', version: '1.0.0', main: 'index.js' }
    const tarball = await pack(site.dir, 'small-1.0.0.tgz', {
      'package/package.json': JSON.stringify(manifest),
      'package/index.js': 'module.exports = 42\n',
    })
    site.put('/small/-/small-1.0.0.tgz', tarball)
    const dist = {
      tarball: 'http://npm.example/small/-/small-1.0.0.tgz',
      integrity: `sha512-${sha('sha512', tarball, 'base64')}`,
    }
    site.put(
      '/small',
      JSON.stringify({
        name: 'small',
        'dist-tags': { latest: '1.0.0' },
        versions: { '1.0.0': { ...manifest, dist } },
      }),
      'application/json',
    )
    const cwd = join(cell.dir, `npm-${proxied}`)
    await mkdir(cwd)
    await writeFile(join(cwd, 'package.json'), '{"name":"x","version":"1.0.0"}')
    const flags = [
      '--registry',
      'http://npm.example/',
      '--no-audit',
      '--no-fund',
      '--no-update-notifier',
      '--cache',
      join(cwd, 'cache'),
    ]
    const ran = await cell.run(['npm', 'install', 'small', ...flags], { proxied, cwd })
    expect(ran, ran.stderr).toMatchObject({ code: 0 })
    expect((await execute('node', ['-p', 'require("small")'], { cwd })).stdout).toBe('42\n')
  })

  test('by pip', async ({ skip }) => {
    await has('pip3', skip)
    const wheel = await pack(site.dir, 'small-1.0-py3-none-any.whl', {
      'small.py': 'answer = 42\n',
      'small-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: small\nVersion: 1.0\n',
      'small-1.0.dist-info/WHEEL':
        'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
      'small-1.0.dist-info/RECORD':
        'small.py,,\nsmall-1.0.dist-info/METADATA,,\nsmall-1.0.dist-info/WHEEL,,\nsmall-1.0.dist-info/RECORD,,\n',
    })
    site.put('/files/small-1.0-py3-none-any.whl', wheel)
    site.put(
      '/simple/small/',
      '<a href="/files/small-1.0-py3-none-any.whl">small-1.0-py3-none-any.whl</a>',
      'text/html',
    )
    const target = join(cell.dir, `pip-${proxied}`)
    const ran = await cell.run(
      [
        'python3',
        '-m',
        'pip',
        'install',
        '--isolated',
        '--no-input',
        '--disable-pip-version-check',
        '--no-cache-dir',
        '--target',
        target,
        '--index-url',
        'https://pip.example/simple',
        '--cert',
        site.authority,
        'small',
      ],
      { proxied, env: { PIP_CONFIG_FILE: '/dev/null' } },
    )
    expect(ran, ran.stderr).toMatchObject({ code: 0 })
    expect((await execute('cat', [join(target, 'small.py')])).stdout).toBe('answer = 42\n')
  })

  test('by cargo', async ({ skip }) => {
    await has('cargo', skip)
    const crate = await pack(site.dir, 'small-1.0.0.crate.tar.gz', {
      'small-1.0.0/Cargo.toml': '[package]\nname = "small"\nversion = "1.0.0"\nedition = "2021"\n',
      'small-1.0.0/src/lib.rs': 'pub const ANSWER: u8 = 42;\n',
    })
    site.put('/index/config.json', JSON.stringify({ dl: 'http://crates.example/dl/{crate}-{version}.crate' }))
    site.put('/dl/small-1.0.0.crate', crate)
    site.put(
      '/index/sm/al/small',
      `${JSON.stringify({ name: 'small', vers: '1.0.0', deps: [], cksum: sha('sha256', crate), features: {}, yanked: false })}\n`,
    )
    const cwd = join(cell.dir, `cargo-${proxied}`)
    await mkdir(join(cwd, 'src'), { recursive: true })
    await writeFile(join(cwd, 'src/main.rs'), 'fn main() {}\n')
    await writeFile(
      join(cwd, 'Cargo.toml'),
      '[package]\nname = "x"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nsmall = { version = "1", registry = "local" }\n',
    )
    const ran = await cell.run(['cargo', 'fetch', '-q'], {
      proxied,
      cwd,
      env: {
        ...rustHomes(),
        CARGO_HOME: join(cwd, 'home'),
        CARGO_REGISTRIES_LOCAL_INDEX: 'sparse+http://crates.example/index/',
      },
    })
    expect(ran, ran.stderr).toMatchObject({ code: 0 })
    expect(site.requests).toContain('crates.example /dl/small-1.0.0.crate')
  })

  test('by go', async ({ skip }) => {
    await has('go', skip)
    const module = await pack(site.dir, 'small.zip', {
      'example.org/small@v1.0.0/go.mod': 'module example.org/small\n',
      'example.org/small@v1.0.0/small.go': 'package small\n',
    })
    site.put('/example.org/small/@v/v1.0.0.info', '{"Version":"v1.0.0","Time":"2020-01-01T00:00:00Z"}')
    site.put('/example.org/small/@v/v1.0.0.mod', 'module example.org/small\n')
    site.put('/example.org/small/@v/v1.0.0.zip', module)
    const cwd = join(cell.dir, `go-${proxied}`)
    await mkdir(cwd)
    await writeFile(join(cwd, 'go.mod'), 'module x\n\nrequire example.org/small v1.0.0\n')
    const ran = await cell.run(['go', 'mod', 'download', '-x', 'example.org/small'], {
      proxied,
      cwd,
      env: {
        GOPROXY: 'http://go.example',
        GONOSUMDB: '*',
        GOFLAGS: '-mod=mod',
        GONOSUMCHECK: '1',
        GOSUMDB: 'off',
        GOPATH: join(cwd, 'path'),
        GOCACHE: join(cwd, 'cache'),
      },
    })
    await execute('chmod', ['-R', 'u+w', cwd])
    expect(ran, ran.stderr).toMatchObject({ code: 0 })
    expect(site.requests).toContain('go.example /example.org/small/@v/v1.0.0.zip')
  })
})

test('Java, which heeds no proxy variables, reaches an allowed host and no other', async ({ skip }) => {
  await has('java', skip)
  const source = join(cell.dir, 'Fetch.java')
  await writeFile(
    source,
    `import java.net.*; import java.io.*;
public class Fetch { public static void main(String[] args) throws Exception {
  System.out.print(new String(new URL(args[0]).openStream().readAllBytes()));
  try (Socket s = new Socket("java.example", 80)) { System.out.println("connected " + s.getPort()); }
  try { new URL(args[1]).openStream(); System.out.println("REACHED"); } catch (IOException e) { System.out.println(e.getClass().getSimpleName()); }
} }`,
  )
  const ran = await cell.run(
    ['java', '-XX:TieredStopAtLevel=1', source, 'http://java.example/hello', 'http://other.example/'],
    { proxied: true },
  )
  expect(ran.stdout, ran.stderr).toBe('hello from outside\nconnected 80\nUnknownHostException\n')
})

test('a plain connect() reaches an allowed host, and a name that is not allowed does not resolve', async () => {
  const script = `import socket
s = socket.create_connection(("web.example", 80)); s.sendall(b"GET /hello HTTP/1.0\\r\\nHost: web.example\\r\\n\\r\\n")
data = b""
while True:
    more = s.recv(4096)
    if not more: break
    data += more
print(data.split(b"\\r\\n\\r\\n")[1].decode(), end="")
for name in ["other.example", "denied.example", "sub.web.example"]:
    try: socket.getaddrinfo(name, 80); print("RESOLVED", name)
    except socket.gaierror: print("no", name)`
  const ran = await cell.run(['python3', '-c', script], { proxied: false })
  expect(ran.stdout, ran.stderr).toBe(
    'hello from outside\nno other.example\nno denied.example\nno sub.web.example\n',
  )
  const bash =
    'exec 3<>/dev/tcp/web.example/80; printf "GET /hello HTTP/1.0\\r\\nHost: web.example\\r\\n\\r\\n" >&3; tail -n1 <&3'
  expect(await cell.run(['bash', '-c', bash], { proxied: false })).toMatchObject({
    stdout: 'hello from outside\n',
  })
})

test('git over ssh reaches an allowed host', async ({ skip }) => {
  const dir = join(site.dir, 'ssh')
  await using server = await startSshServer(dir)
  if (server === null) return skip('no dropbear or sshd on this machine')
  const repository = join(dir, 'repo.git')
  await execute('git', ['init', '-q', '--bare', repository])
  await execute('git', ['-C', repository, 'update-ref', 'refs/heads/main', await emptyCommit(repository)])
  await using own = await makeCell({ pins: { 'git.example:22': `127.0.0.1:${server.port}` } })
  const ran = await own.run(['git', 'ls-remote', `${server.user}@git.example:${repository}`], {
    env: { GIT_SSH_COMMAND: server.client },
  })
  expect(ran, ran.stderr + server.said()).toMatchObject({ code: 0 })
  expect(ran.stdout).toContain('refs/heads/main')
  expect(own.decisions).toEqual([
    expect.objectContaining({ host: 'git.example', port: 22, allowed: true, via: 'alias' }),
  ])
})

test('a secret reaches its own host over TLS, and never the sandbox', async () => {
  const authorities = [await readFile(site.authority, 'utf8')]
  const credentials = [{ hosts: ['web.example'], header: 'Authorization', value: 'Bearer s3cret' }]
  const pins = { 'web.example': `127.0.0.1:${site.https}`, 'git.example': `127.0.0.1:${site.http}` }
  await using own = await makeCell({ pins }, { credentials, authorities })
  site.secrets.length = 0
  for (const proxied of [true, false]) {
    const ran = await own.run(['curl', '-sS', 'http://web.example/hello'], { proxied })
    expect(ran).toMatchObject({ code: 0, stdout: 'hello from outside\n' })
  }
  await own.run(['curl', '-sS', 'http://git.example/hello'])
  expect(site.secrets).toEqual(['Bearer s3cret', 'Bearer s3cret', undefined])
  // A server whose certificate is not for the name gets neither the secret nor the request.
  await using untrusted = await makeCell({ pins }, { credentials })
  const refused = await untrusted.run(['curl', '-sS', 'http://web.example/hello'])
  expect(refused.stdout).toContain('TLS failed')
  expect(site.secrets).toHaveLength(3)
})

async function emptyCommit(repository: string): Promise<string> {
  const git = (...args: string[]) =>
    execute('git', ['-C', repository, '-c', 'user.name=t', '-c', 'user.email=t@t', ...args])
  const tree = (await git('hash-object', '-w', '-t', 'tree', '/dev/null')).stdout.trim()
  return (await git('commit-tree', '-m', 'first', tree)).stdout.trim()
}
