import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownInterfaces } from '../../src/engine/egress/rules/addresses.ts'
import { hostsOf, read, type PresetContext } from '../../src/engine/egress/presets/asking.ts'
import { expandOutputs, expandPreset as expand } from '../../src/engine/egress/presets/index.ts'
import { sshHostOf } from '../../src/engine/egress/presets/remotes.ts'

const expandPreset = async (...asked: Parameters<typeof expand>) => (await expand(...asked)).hosts

const execute = promisify(execFile)
let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'egress-preset-'))
  await mkdir(join(home, 'bin'))
})
afterAll(() => rm(home, { recursive: true, force: true }))

/** A tool that answers as the real one does. */
async function fakeTool(name: string, script: string): Promise<void> {
  await writeFile(join(home, 'bin', name), `#!/bin/sh\n${script}\n`)
  await chmod(join(home, 'bin', name), 0o755)
}
const context = (more: Partial<PresetContext> = {}): PresetContext => ({
  home,
  env: { PATH: `${join(home, 'bin')}:/usr/bin:/bin` },
  roots: [],
  cardHosts: [],
  fetchText: async () => null,
  resolve: async () => ['1.1.1.1'],
  ...more,
})

test('npm means the registries of its configuration, scoped ones too', async () => {
  await fakeTool(
    'npm',
    `echo '{"registry":"https://mirror.test/npm/","@corp:registry":"http://npm.corp.test:4873/","replace-registry-host":"npmjs"}'`,
  )
  expect(await expandPreset('npm', context())).toEqual(['mirror.test:443', 'npm.corp.test:4873'])
})

test('go means its module proxies and checksum database', async () => {
  await fakeTool('go', `echo '{"GOPROXY":"https://goproxy.test,direct","GOSUMDB":"sum.test+033de0ae+Ac4"}'`)
  expect(await expandPreset('go', context())).toEqual(['goproxy.test:443', 'sum.test:443'])
})

test('a tool that cannot be asked is overheard: what it wants from the proxy is what it is configured for', async () => {
  await fakeTool(
    'pip',
    'case $1 in download) curl -s -o /dev/null https://index.test/simple/pip/; curl -s -o /dev/null http://extra.test:8080/simple/ ;; *) echo "global.index-url=\'https://index.test/simple\'" ;; esac; exit 1',
  )
  const fetchText = async (url: string) =>
    url === 'https://index.test/simple/pip/' ? '<a href="https://files.test/pip.whl">' : null
  expect(await expandPreset('pip', context())).toEqual(['extra.test:8080', 'index.test:443'])
  await fakeTool('pip', 'case $1 in download) curl -s -o /dev/null https://index.test/simple/pip/ ;; esac')
  expect(await expandPreset('pip', context({ fetchText }))).toEqual(['files.test:443', 'index.test:443'])
})

test('cargo is asked with the configuration of its own home, and its index says where crates lie', async () => {
  await mkdir(join(home, '.cargo'), { recursive: true })
  await writeFile(join(home, '.cargo/config.toml'), 'index-host = "crates.test"\n')
  await fakeTool(
    'cargo',
    `curl -s -o /dev/null "https://$(sed -n 's/.*"\\(.*\\)"/\\1/p' "$CARGO_HOME/config.toml")/config.json"`,
  )
  const fetchText = async (url: string) =>
    url === 'https://crates.test/config.json' ? '{"dl":"https://static.test/crates"}' : null
  expect(await expandPreset('cargo', context({ fetchText }))).toEqual(['crates.test:443', 'static.test:443'])
})

test('a tool is asked where nobody else can put a configuration above it, not in the shared /tmp', async () => {
  const shared = join(home, 'shared')
  await mkdir(shared)
  await chmod(shared, 0o1777)
  await mkdir(join(shared, 'mine'), { mode: 0o700 })
  for (const tool of ['pip', 'cargo', 'mvn']) {
    await fakeTool(
      tool,
      `case "$*" in *config*) exit ;; esac; pwd -P >'${home}/cwd'; curl -s -o /dev/null https://heard.test/`,
    )
    const preset = tool === 'mvn' ? 'maven' : (tool as 'pip' | 'cargo')
    const asked = context({ home: join(shared, 'mine'), env: { ...context().env, XDG_RUNTIME_DIR: shared } })
    expect(await expandPreset(preset, asked)).toContain('heard.test:443')
    const cwd = (await readFile(join(home, 'cwd'), 'utf8')).trim()
    expect(dirname(cwd)).toBe(await realpath(homedir()))
    for (let at = dirname(cwd); ; at = dirname(at)) {
      expect((await stat(at)).mode & 0o022, at).toBe(0)
      if (at === '/') break
    }
    await expect(stat(cwd)).rejects.toThrowError('ENOENT')
  }
})

test('git means the remotes of the roots, model what the card names', async () => {
  const root = join(home, 'repo')
  await execute('git', ['init', '-q', root])
  await execute('git', ['-C', root, 'remote', 'add', 'origin', 'git@git.test:team/project.git'])
  await execute('git', ['-C', root, 'remote', 'add', 'mirror', 'https://mirror.test/project.git'])
  await execute('git', ['-C', root, 'remote', 'add', 'local', '/srv/project.git'])
  expect(await expandPreset('git', context({ roots: [root] }))).toEqual(['git.test:22', 'mirror.test:443'])
  expect(await expandPreset('model', context({ cardHosts: ['model.test:443'] }))).toEqual(['model.test:443'])
  await expect(expandPreset('git', context({ roots: [home] }))).rejects.toThrowError('@git: no host')
})

test.each([
  ['git@a.test:x/y.git', 'a.test:22'],
  ['a.test:repo.git', 'a.test:22'],
  ['a.test:/srv/repo.git', 'a.test:22'],
  ['[a.test:2222]:repo.git', 'a.test:2222'],
  ['[git@a.test:2222]:repo.git', 'a.test:2222'],
  ['git@[2606:4700::1]:repo.git', '[2606:4700::1]:22'],
  ['./a:b', null],
  ['/srv/a:b', null],
  ['https://a.test/x', null],
  ['ext::sh -c true', null],
  ['file:///srv/a', null],
])('the remote %j is ssh to %j', (url, host) => {
  expect(sshHostOf(url)).toBe(host)
})

test("remotes are where git would go: with the user's rewriting and the repository's, the longest first", async () => {
  const root = join(home, 'rewritten')
  await execute('git', ['init', '-q', root])
  await execute('git', ['-C', root, 'remote', 'add', 'origin', 'short:team/project.git'])
  await execute('git', ['-C', root, 'remote', 'add', 'other', 'https://public.test/x.git'])
  await execute('git', [
    '-C',
    root,
    'config',
    'url.ssh://git@push.test:2222/.pushInsteadOf',
    'https://public.test/',
  ])
  await writeFile(
    join(home, '.gitconfig'),
    '[url "https://wrong.test/"]\n insteadOf = s\n[url "https://git.corp.test/"]\n insteadOf = short:\n',
  )
  const hosts = ['git.corp.test:443', 'public.test:443', 'push.test:2222']
  expect(await expandPreset('git', context({ roots: [root] }))).toEqual(hosts)
  await rm(join(home, '.gitconfig'))
})

test("a repository's remotes open nothing of the user's own machine and network, and that is said", async () => {
  const root = join(home, 'greedy')
  await execute('git', ['init', '-q', root])
  await execute('git', ['-C', root, 'remote', 'add', 'origin', 'http://localhost:18901/x.git'])
  await execute('git', ['-C', root, 'remote', 'add', 'cloud', 'http://169.254.169.254/x.git'])
  const resolve = async (host: string) =>
    host === 'public.test' ? ['1.1.1.1'] : [host === 'localhost' ? '127.0.0.1' : host]
  const asked = context({ roots: [root], resolve })
  await expect(expand('git', asked)).rejects.toThrowError(
    '@git: it leads only to your own machine or network (169.254.169.254:80, localhost:18901)',
  )
  await execute('git', ['-C', root, 'remote', 'add', 'good', 'public.test:x.git'])
  const leftOut = ['169.254.169.254:80', 'localhost:18901']
  const expansion = { preset: 'git', hosts: ['public.test:22'], leftOut }
  expect(await expandOutputs({ allow: ['@git'] }, asked)).toEqual({
    outputs: { allow: ['public.test:22'] },
    expansions: [expansion],
  })
})

test("where a repository lies and what ssh calls a host count, as they do for the user's own git", async ({
  skip,
}) => {
  if ((await execute('ssh', ['-V']).catch(() => null)) === null) return skip('no ssh on this machine')
  const root = join(home, 'company', 'repo')
  await execute('git', ['init', '-q', root])
  await execute('git', ['-C', root, 'remote', 'add', 'origin', 'https://public.test/x.git'])
  await execute('git', ['-C', root, 'remote', 'add', 'short', 'git@corp:x.git'])
  await execute('git', ['-C', root, 'remote', 'add', 'other', 'ssh://git@corp:2200/x.git'])
  await writeFile(join(home, '.gitconfig'), `[includeIf "gitdir:${home}/company/"]\n path = company.inc\n`)
  await writeFile(
    join(home, 'company.inc'),
    '[url "https://mirror.corp.test/"]\n insteadOf = https://public.test/\n',
  )
  await mkdir(join(home, '.ssh'))
  await writeFile(join(home, '.ssh/config'), 'Host corp\n HostName git.corp.test\n Port 2222\n', {
    mode: 0o600,
  })
  const hosts = ['git.corp.test:2200', 'git.corp.test:2222', 'mirror.corp.test:443']
  expect(await expandPreset('git', context({ roots: [root] }))).toEqual(hosts)
  await rm(join(home, '.gitconfig'))
  await rm(join(home, '.ssh'), { recursive: true })
})

test("a registry on the user's own machine is not opened by a preset: that takes a pin, under another name", async () => {
  for (const [registry, address] of [
    ['http://localhost:4873/', '127.0.0.1'],
    ['http://127.0.0.1:4873/', '127.0.0.1'],
    ['http://npm.corp.test:4873/', '127.0.1.1'],
    ['http://[::1]:4873/', '::1'],
  ] as const) {
    await fakeTool('npm', `echo '{"registry":"${registry}"}'`)
    const asked = context({ resolve: async () => [address] })
    await expect(expand('npm', asked)).rejects.toMatchObject({ code: 'egress.own_network', kind: 'input' })
  }
  await fakeTool('npm', `echo '{"registry":"http://npm.corp.test/","@x:registry":"http://localhost:4873/"}'`)
  const resolve = async (host: string) => [host === 'localhost' ? '127.0.0.1' : '10.0.0.7']
  expect(await expand('npm', context({ resolve }))).toMatchObject({
    hosts: ['npm.corp.test:80=10.0.0.7:80'],
    leftOut: ['localhost:4873'],
  })
})

test('what a registry answers opens nothing of the own network, and what is beside every machine nobody opens', async () => {
  const own = ownInterfaces().find(({ address }) => !/^(127\.|::1$|fe80:)/.test(address))?.address
  const resolve = async (host: string) => [
    host === 'index.test' ? '10.0.0.7' : host === 'files.test' ? '1.1.1.1' : host,
  ]
  const page = ['169.254.169.254/x', '192.168.77.7:8000/p', 'files.test/p', 'index.test/y'].map(
    (at) => `http://${at}`,
  )
  await fakeTool('pip', `case $1 in config) echo "global.index-url='http://index.test/simple'" ;; esac`)
  const asked = context({ resolve, fetchText: async () => page.join('\n') })
  expect(await expand('pip', asked)).toMatchObject({
    // Control: what the user's own configuration names in the own network.
    hosts: ['files.test:80', 'index.test:80=10.0.0.7:80'],
    leftOut: ['169.254.169.254:80', '192.168.77.7:8000'],
  })
  const config = { registries: { company: { index: 'sparse+http://index.test/' } } }
  await fakeTool('cargo', `case "$*" in *config*) echo '${JSON.stringify(config)}' ;; esac`)
  const fetchText = async () => '{"dl":"http://192.168.77.7:8000/dl"}'
  expect(await expand('cargo', context({ resolve, fetchText }))).toMatchObject({
    hosts: ['index.test:80=10.0.0.7:80'],
    leftOut: ['192.168.77.7:8000'],
  })
  const nowhere = ['169.254.169.254', '100.100.100.200', 'fd00:ec2::254', 'fe80::1', '64:ff9b::a9fe:a9fe']
  for (const address of [...nowhere, ...(own === undefined ? [] : [own])]) {
    const card = context({ cardHosts: ['mirror.test:443'], resolve: async () => [address] })
    await expect(expand('model', card), address).rejects.toMatchObject({ code: 'egress.own_network' })
  }
})

test('a tool that is slow is not called absent', async () => {
  for (const [preset, tool] of [
    ['npm', 'npm'],
    ['maven', 'mvn'],
  ] as const) {
    await fakeTool(tool, 'exec sleep 60')
    const hasty = context({ patienceMs: 300 })
    await expect(expand(preset, hasty)).rejects.toThrowError(`@${preset}: ${tool} did not answer in time`)
  }
})

test('a page is followed only to the same server', async () => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    const { port } = server.address() as AddressInfo
    const to = { '/near': '/page', '/far': `http://localhost:${port}/page` }[request.url ?? '']
    if (to === undefined) return void response.end('found')
    response.writeHead(302, { Location: to }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { fetchText: _, ...plain } = context()
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  expect(await read(plain, `${at}/far`)).toBeNull()
  expect(await read(plain, `${at}/near`)).toBe('found')
  expect(asked).toEqual(['/far', '/near', '/page'])
  server.close()
})

test("a mirror in the user's own network is pinned to the address it has", async () => {
  const private_ = context({ cardHosts: ['mirror.test:443'], resolve: async () => ['10.1.2.3'] })
  expect(await expandPreset('model', private_)).toEqual(['mirror.test:443=10.1.2.3:443'])
})

test('urls of every kind give their host and port', () => {
  expect(
    hostsOf([
      'https://user:p@ss@a.test/x',
      'ssh://git@b.test:2222/x',
      'sparse+https://d.test/i/',
      'file:///x',
      '/x',
      'direct',
      'https://[2606:4700::1]/x',
      'git://e.test/x',
      '',
    ]),
  ).toEqual(['a.test:443', 'b.test:2222', 'd.test:443', '[2606:4700::1]:443', 'e.test:9418'])
})

test('presets among the allowed hosts become hosts and pins, and everything else stays', async () => {
  const given = { mode: 'restricted', allow: ['a.test', '@model'], deny: ['b.test'] } as const
  const outputs = { ...given, allow: [...given.allow], deny: [...given.deny] }
  const asked = context({ cardHosts: ['m.test:443'], resolve: async () => ['192.168.0.9'] })
  expect(await expandOutputs(outputs, asked)).toEqual({
    outputs: { ...outputs, allow: ['a.test', 'm.test:443'], pins: { 'm.test:443': '192.168.0.9:443' } },
    expansions: [{ preset: 'model', hosts: ['m.test:443=192.168.0.9:443'] }],
  })
})
