import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { PresetContext } from './asking.ts'
import { expandPreset } from './index.ts'
import { mavenTold } from './maven.ts'
import { toldInWords } from './told.ts'

let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'egress-told-'))
  await mkdir(join(home, 'bin'))
})
afterAll(() => rm(home, { recursive: true, force: true }))

async function fakeTool(name: string, script: string): Promise<void> {
  await writeFile(join(home, 'bin', name), `#!/bin/sh\n${script}\n`)
  await chmod(join(home, 'bin', name), 0o755)
}
const context = (): PresetContext => ({
  home,
  env: { PATH: `${join(home, 'bin')}:/usr/bin:/bin` },
  roots: [],
  cardHosts: [],
  fetchText: async () => null,
  resolve: async (host) => [host === 'localhost' ? '127.0.0.1' : '1.1.1.1'],
})

test('npm inside is told the registries that are open, without a password; one that npm does not print is read from its file', async () => {
  const own = join(home, '.npmrc')
  await writeFile(own, 'registry = https://ada:pw@x@mirror.test/npm/\n//mirror.test/npm/:_authToken=s3cret\n')
  const printed = { '@corp:registry': 'http://corp.test:4873/', '@own:registry': 'http://localhost:1/' }
  await fakeTool('npm', `echo '${JSON.stringify({ ...printed, userconfig: own })}'`)
  const { hosts, told } = await expandPreset('npm', context())
  expect(hosts).toEqual(['corp.test:4873', 'mirror.test:443'])
  const target = '/run/orangery/npmrc'
  expect(told).toEqual({
    env: { npm_config_globalconfig: target },
    files: [
      {
        name: 'npmrc',
        target,
        text: 'registry=https://mirror.test/npm/\n@corp:registry=http://corp.test:4873/\n',
      },
    ],
  })
})

test('pip inside is told every index of the configuration, though a proxy of its own is named there, and all are open', async () => {
  const listed = [
    "global.index-url='https://u:pw@x@index.test/simple'",
    String.raw`global.extra-index-url='https://a.test/simple\nhttps://b.test/simple'`,
    "global.find-links='https://links.test/l /srv/wheels'",
    "global.proxy='http://127.0.0.1:9'",
  ]
  await fakeTool('pip', `cat <<'X'\n${listed.join('\n')}\nX`)
  const { hosts, told } = await expandPreset('pip', context())
  expect(hosts).toEqual(['a.test:443', 'b.test:443', 'index.test:443', 'links.test:443'])
  expect(told?.env).toEqual({
    PIP_INDEX_URL: 'https://index.test/simple',
    PIP_EXTRA_INDEX_URL: 'https://a.test/simple https://b.test/simple',
    PIP_FIND_LINKS: 'https://links.test/l',
  })
})

test("cargo's own registries and replaced sources are open and told, tokens are not", async () => {
  const config = {
    registries: { company: { index: 'sparse+https://crates.test/i/', token: 's3cret' } },
    source: {
      'crates-io': { 'replace-with': 'mirror' },
      mirror: { registry: 'https://u:pw@x@mirror.test/x' },
      // Not in the sandbox: to be sent there would leave cargo with nothing.
      other: { registry: 'https://other.test/x', 'replace-with': 'folder' },
      folder: { directory: '/srv/vendor' },
    },
  }
  await fakeTool('cargo', `case "$*" in *config*) echo '${JSON.stringify(config)}' ;; esac`)
  const { hosts, told } = await expandPreset('cargo', context())
  expect(hosts).toEqual(['crates.test:443', 'mirror.test:443', 'other.test:443'])
  const lines = [
    '[source."crates-io"]\nreplace-with = "mirror"',
    '[source."mirror"]\nregistry = "https://mirror.test/x"',
    '[source."other"]\nregistry = "https://other.test/x"',
    '[registries."company"]\nindex = "sparse+https://crates.test/i/"\n',
  ]
  expect(told?.files).toMatchObject([{ target: '/.cargo/config.toml', text: lines.join('\n') }])
})

test('go inside is told its proxies and checksum database without the passwords in them', async () => {
  const values = {
    GOPROXY: 'https://u:pw@x@go.test/p|direct',
    GOSUMDB: 'sum.test+033de0ae+Ac4 https://u:pw@x@sums.test/s',
  }
  await fakeTool('go', `echo '${JSON.stringify(values)}'`)
  const { hosts, told } = await expandPreset('go', context())
  expect(hosts).toEqual(['go.test:443', 'sums.test:443'])
  expect(told?.env).toEqual({
    GOPROXY: 'https://go.test/p|direct',
    GOSUMDB: 'sum.test+033de0ae+Ac4 https://sums.test/s',
  })
})

test('of Maven settings mirrors and active profiles are told, and no server, proxy, property or comment', () => {
  const profile = (id: string, url: string, more = '') =>
    `<profile><id>${id}</id>${more}<repositories><repository><url>${url}</url></repository></repositories></profile>`
  const told = mavenTold(`<settings><!-- <mirrors><mirror><url>http://old.test/</url></mirror></mirrors> -->
    <servers><server><password>s3cret</password></server></servers>
    <proxies><proxy><host>proxy.test</host></proxy></proxies>
    <mirrors><mirror><url>https://u:pw@x&#64;y@mirror.test/m</url></mirror><mirror><url ><![CDATA[http://u:pw@x@data.test/]]></url></mirror></mirrors>
    <profiles>${profile('on', 'https://${host}/r', '<properties><host>repo.test</host></properties>')}
    ${profile('off', 'https://off.test/')}</profiles>
    <activeProfiles><activeProfile>on</activeProfile></activeProfiles></settings>`)
  expect(told.match(/https?:[^<]*/g)).toEqual([
    'https://mirror.test/m',
    'http://data.test/',
    'https://repo.test/r',
  ])
  expect(told).not.toMatch(/s3cret|pw|proxy|properties/)
})

test("git inside is told the user's own rewritings that its remotes need, with the name that ssh goes by and no password", async () => {
  const root = join(home, 'repository')
  const git = (...args: string[]) => execFileSync('git', ['-C', root, ...args])
  await mkdir(root)
  git('init', '-q')
  const remotes = [
    'https://http.test/x',
    'https://ssh.test/x',
    'https://scp.test/x',
    'git://scheme.test/x',
    'https://in:s3cret@secret.test/x',
    'https://login.test/x',
    'https://own.test/x',
    'https://odd@split.test/x',
    'https://folder.test/x',
  ]
  for (const [index, url] of remotes.entries()) git('remote', 'add', `r${index}`, url)
  git('config', 'url.https://theirs.test/.insteadOf', 'https://own.test/')
  const own = [
    ['https://ada:s3cret@mirror.test/?tok=s3cret', 'https://http.test/x'],
    ['ssh://git:s3cret@mirror.test/', 'https://ssh.test/'],
    ['git@mirror.test:', 'https://scp.test/'],
    ['https://', 'git://'],
    ['https://mirror.test/', 'https://in:s3cret@secret.test/'],
    ['https://ada:s3cret@login.test/', 'https://login.test/'],
    ['https://ada:s3cret', 'https://odd'],
    ['/srv/', 'https://folder.test/'],
    ['https://unused.test/', 'https://nobody.test/'],
  ]
  const lines = own.map(([base, value]) => `[url "${base}"]\n insteadOf = ${value}\n`)
  await writeFile(join(home, '.gitconfig'), lines.join(''))
  const { told } = await expandPreset('git', { ...context(), roots: [root] })
  expect(told?.git).toEqual([
    { key: 'url.https://mirror.test/.insteadOf', value: 'https://http.test/x' },
    { key: 'url.ssh://git@mirror.test/.insteadOf', value: 'https://ssh.test/' },
    { key: 'url.git@mirror.test:.insteadOf', value: 'https://scp.test/' },
    { key: 'url.https://.insteadOf', value: 'git://' },
    { key: 'url.https://login.test/.insteadOf', value: 'https://login.test/' },
  ])
  await rm(join(home, '.gitconfig'))
})

test("a mirror of the user's own git in the own network is pinned, one that the repository names there is left out", async () => {
  const root = join(home, 'mirrored')
  const git = (...args: string[]) => execFileSync('git', ['-C', root, ...args])
  await mkdir(root)
  git('init', '-q')
  git('remote', 'add', 'a', 'https://public.test/x')
  git('remote', 'add', 'b', 'https://half.test/x')
  git('remote', 'add', 'c', 'https://theirs.test/x')
  git('config', 'url.https://planted.lan/.insteadOf', 'https://theirs.test/')
  const own = [
    ['https://mirror.lan/', 'https://public.test/'],
    // What follows is the repository's to choose, and could go on with the name.
    ['https://half.lan', 'https://half.test'],
  ]
  const lines = own.map(([base, value]) => `[url "${base}"]\n insteadOf = ${value}\n`)
  await writeFile(join(home, '.gitconfig'), lines.join(''))
  const asked = { ...context(), roots: [root], resolve: async () => ['10.0.0.7'] }
  expect(await expandPreset('git', asked)).toMatchObject({
    hosts: ['mirror.lan:443=10.0.0.7:443'],
    leftOut: ['half.lan:443', 'planted.lan:443'],
    told: { git: [{ key: 'url.https://mirror.lan/.insteadOf', value: 'https://public.test/' }] },
  })
  await rm(join(home, '.gitconfig'))
})

test('no question, mark, name or password of a url is told, however it is written; its path is, and every url is said in full beforehand', async () => {
  const url = (host: string) => `https://ada:s3cret@${host}/path/?tok=s3cret#s3cret`
  await fakeTool('npm', `echo '${JSON.stringify({ registry: url('n.test'), '@c:registry': url('c.test') })}'`)
  await fakeTool(
    'pip',
    `echo "global.index-url='${url('i.test')}'"; echo "global.find-links='${url('l.test')}'"`,
  )
  const registries = {
    company: { index: `sparse+${url('k.test')}` },
    odd: { index: 'https://u:s3cret/x@o.test' },
  }
  await fakeTool('cargo', `case "$*" in *config*) echo '${JSON.stringify({ registries })}' ;; esac`)
  await fakeTool(
    'go',
    `echo '${JSON.stringify({ GOPROXY: url('g.test'), GOSUMDB: `s.test ${url('s.test')}` })}'`,
  )
  await fakeTool('mvn', 'true')
  const mirror = (text: string) => `<mirror><url>${text}</url></mirror>`
  const written = [
    url('m.test').replaceAll('&', '&amp;'),
    'https://ada:s3cret&#64;a.test/path/&#63;tok=s3cret',
    'https://p.test/${part}/?tok=${tok}',
  ]
  const properties = '<properties><part>path</part><tok>s3cret</tok></properties>'
  await mkdir(join(home, '.m2'))
  await writeFile(
    join(home, '.m2/settings.xml'),
    `<settings><mirrors>${written.map(mirror).join('')}</mirrors><profiles><profile>${properties}</profile></profiles></settings>`,
  )
  const said: string[] = []
  for (const preset of ['npm', 'pip', 'cargo', 'go', 'maven'] as const) {
    const { told } = await expandPreset(preset, context())
    expect(JSON.stringify(told), preset).not.toContain('s3cret')
    said.push(...toldInWords(told ?? { env: {}, files: [] }))
  }
  await rm(join(home, '.m2'), { recursive: true })
  expect(said).toEqual([
    'npm_config_globalconfig=/run/orangery/npmrc',
    '/run/orangery/npmrc: https://n.test/path/ https://c.test/path/',
    'PIP_INDEX_URL=https://i.test/path/',
    'PIP_FIND_LINKS=https://l.test/path/',
    '/.cargo/config.toml: sparse+https://k.test/path/',
    'GOPROXY=https://g.test/path/',
    'GOSUMDB=s.test https://s.test/path/',
    'MAVEN_ARGS=-s /run/orangery/settings.xml',
    '/run/orangery/settings.xml: https://m.test/path/ https://a.test/path/ https://p.test/path/',
  ])
})

test('a tool that is asked reaches nobody but our listening proxy, whatever its own files name', async () => {
  let came = 0
  const server = createServer((socket) => {
    came++
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const direct = `curl -s -m 5 --noproxy '*' http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  await fakeTool('npm', `${direct}; echo '{"registry":"https://heard.test/"}'`)
  await fakeTool('mvn', `${direct}; curl -s -m 5 https://heard.test/`)
  for (const preset of ['npm', 'maven'] as const)
    expect((await expandPreset(preset, context())).hosts).toEqual(['heard.test:443'])
  expect(came).toBe(0)
  await new Promise((done) => execFile('sh', ['-c', direct], done))
  expect(came).toBe(1)
  server.close()
})
