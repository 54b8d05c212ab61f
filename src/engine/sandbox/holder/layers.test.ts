import { chmod, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describePlan } from '../plan/describe.ts'
import { makeGround, startOn, steadySecrets } from '../fixture.ts'
import { detectHost } from '../host/host.ts'
import { lesserOn, lesserView } from '../plan/lesserView.ts'
import { planSandbox } from '../plan/plan.ts'

const oddNames = ['Ann Lee', 'jürgen', 'a:b,c', String.raw`back\slash\040`, `quo"te's`, 'new\nline', '#$(x)']

test.each(oddNames)(
  'system folders and /etc are shown through layers where the path of the data folder has %j',
  async (name) => {
    const parent = await mkdtemp(join(tmpdir(), 'orangery-layers-'))
    await using _ = { [Symbol.asyncDispose]: () => rm(parent, { recursive: true, force: true }) }
    await mkdir(join(parent, name))
    await using plain = await makeGround()
    await using odd = await makeGround('project', join(parent, name))
    const [usual, host] = await Promise.all([detectHost(plain.dataDir), detectHost(odd.dataDir)])
    expect(host.systemLayers.map(({ path }) => path)).toEqual(usual.systemLayers.map(({ path }) => path))
    expect(host.etcLayer === null).toBe(usual.etcLayer === null)
    const request = odd.request(['sh', '-c', 'cat README.md'])
    const { sandbox, finish } = await startOn(odd, request, host)
    await using _running = sandbox
    sandbox.release()
    expect((await finish()).stdout).toBe('original\n')
    const layers = sandbox.probe.checks.filter((check) => check.name.startsWith('layer over '))
    expect(layers).toHaveLength(usual.systemLayers.length + (usual.etcLayer === null ? 0 : 1))
    expect(layers.every(({ ok, actual }) => ok && actual === 'overlay')).toBe(true)
  },
)

test('a data folder and a config folder below a system folder are hidden in it, by a link too, and what lies beside them is shown through a layer', async ({
  skip,
}) => {
  skip(process.getuid?.() !== 0, 'only root can put something below /opt')
  const folder = await mkdtemp('/opt/orangery-test-')
  await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
  await chmod(folder, 0o755)
  await using ground = await makeGround('project', folder)
  await chmod(ground.folder, 0o755)
  const { dataDir } = ground
  const link = join(ground.folder, 'link')
  await symlink(dataDir, link)
  const [host, byLink] = await Promise.all([detectHost(dataDir), detectHost(link)])
  expect(host.systemLayers.map(({ path }) => path)).toContain('/opt')
  expect(byLink.systemLayers).toEqual(host.systemLayers)
  expect(steadySecrets(byLink, folder)).toEqual(steadySecrets(host, folder))
  const config = join(ground.folder, 'config')
  await mkdir(config)
  const secretDirs = [dataDir, join(dataDir, 'run'), config, join(ground.folder, 'not-there')]
  const script = `cat README.md; ls -a ${dataDir} ${config} 2>&1; ls ${ground.folder}`
  const request = ground.request(['sh', '-c', script], { secretDirs })
  const { sandbox, finish } = await startOn(ground, request, host)
  await using _running = sandbox
  expect(sandbox.probe.checks.filter(({ ok }) => !ok)).toEqual([])
  sandbox.release()
  const { stdout } = await finish()
  expect(stdout).toMatch(/^original\n(ls: .*Permission denied\n){2}config\ndata\n/)
})

test('a data folder that was emptied since the host was looked at is no reason not to start', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  await rm(join(ground.dataDir, 'layers'), { recursive: true })
  const { sandbox, finish } = await startOn(ground, ground.request(['cat', 'README.md']), host)
  await using _ = sandbox
  sandbox.release()
  expect((await finish()).stdout).toBe('original\n')
})

test('where no layer can be laid over a folder, the host, the plan and its description say what is less for it', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const request = ground.request(['true'])
  const usr = { kind: 'folder', path: '/usr' } as const
  const etc = { kind: 'folder', path: '/etc' } as const
  const layered = { ...host, system: [usr, etc], systemLayers: [{ path: '/usr', place: '/data/usr' }] }
  const whole = { ...layered, etcLayer: { folder: '/data/etc', hidden: [] } }
  expect([lesserOn(whole), lesserView(planSandbox(request, whole))]).toEqual([[], []])
  const bare = { ...whole, systemLayers: [], etcLayer: null }
  const plan = planSandbox(request, bare)
  const said = [
    expect.stringMatching(/^\/usr: .*pipes are not$/),
    expect.stringMatching(/^\/etc: .*replaced$/),
  ]
  expect(lesserOn(bare)).toEqual(said)
  expect(lesserView(plan)).toEqual(said)
  for (const text of lesserView(plan)) expect(describePlan(plan)).toContain(text)
  expect(lesserView(planSandbox({ ...request, grants: ['/usr', '/etc'] }, bare))).toEqual([])
})
