import { access, mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import type { RunningSandbox, SandboxRequest } from '../../src/engine/base/sandbox.ts'
import type { WorkspaceRoot } from '../../src/engine/base/workspace.ts'
import { type Ground, lookAtHost, makeGround, startOn } from '../../src/engine/sandbox/fixture.ts'
import { detectHost, type HostFacts } from '../../src/engine/sandbox/host/host.ts'
import { Standing } from '../escape/standing.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

/** Roots of the same last name in folders of their own, which lie in the private /tmp inside. */
async function makeRoots(ground: Ground, folders: readonly string[]): Promise<readonly WorkspaceRoot[]> {
  const { workspace } = ground.request(['true'])
  return Promise.all(
    folders.map(async (folder): Promise<WorkspaceRoot> => {
      const path = join(ground.folder, folder, 'w')
      const layers = join(workspace.dir, 'roots', folder)
      const [upper, work] = [join(layers, 'upper'), join(layers, 'work')]
      for (const place of [path, upper, work]) await mkdir(place, { recursive: true })
      const mount = { kind: 'overlay', lower: path, upper, work } as const
      return { path, target: path, name: folder, role: 'project', access: 'rw', mount }
    }),
  )
}

async function started(ground: Ground, request: SandboxRequest, isWarm: boolean) {
  await using scope = new AsyncDisposableStack()
  let sandbox: RunningSandbox
  if (isWarm) {
    const standing = scope.use(await Standing.make({ ground }, await detectHost(ground.dataDir)))
    sandbox = scope.use((await standing.start(request)).sandbox)
    expect(standing.isUsed).toBe(true)
  } else sandbox = scope.use((await startOn(ground, request, host)).sandbox)
  sandbox.release()
  return { sandbox, scope: scope.move() }
}

const says = `import os, sys, time
def sign(name): open("/home/agent/" + name, "w")
def wait(name):
  while not os.path.exists("/home/agent/" + name): time.sleep(0.01)
def write(path):
  try: open(path, "w").close()
  except OSError as error: print(error.strerror, flush=True)
`

test.each([
  ['made for it', false],
  ['that stood before', true],
])(
  'a root that is read-only is so by every name the agent gave its folders, in a sandbox %s',
  async (_, isWarm) => {
    await using ground = await makeGround()
    const roots = await makeRoots(ground, ['A', 'B'])
    const { folder } = ground
    await writeFile(
      join(ground.home, 'move.py'),
      `${says}a, b = os.open("${folder}/A/w", os.O_PATH), os.open("${folder}/B/w", os.O_PATH)
os.rename("${folder}/A", "${folder}/T"); os.rename("${folder}/B", "${folder}/A"); os.rename("${folder}/T", "${folder}/B")
os.rename("${dirname(folder)}", "/tmp/elsewhere") if "${dirname(folder)}" != "/tmp" else None
kept = open(f"/proc/self/fd/{a}/gone", "w+"); kept.close(); kept = open(f"/proc/self/fd/{a}/gone"); os.unlink(f"/proc/self/fd/{a}/gone")
child = os.fork()
if child == 0: time.sleep(60); os._exit(0)
def tryBoth(name): write(f"/proc/self/fd/{a}/{name}"); write(f"/proc/self/fd/{b}/{name}")
tryBoth("early"); sign("open"); wait("narrow"); tryBoth("late")
sign("tried"); wait("wide"); tryBoth("later"); os.kill(child, 0); sign("done"); os.kill(child, 9)
`,
    )
    const workspace = { ...ground.request(['true']).workspace, roots }
    const request = ground.request(['python3', '/home/agent/move.py'], { workspace, cwd: '/tmp' })
    const { sandbox, scope } = await started(ground, request, isWarm)
    await using _held = scope
    await ground.waitForHome('open')
    const { note } = await sandbox.setFiles('ro')
    expect(note).toMatch(/deleted but still open.*nobody had to be ended/)
    await ground.writeHome('narrow')
    await ground.waitForHome('tried')
    await sandbox.setFiles('rw')
    await ground.writeHome('wide')
    await ground.waitForHome('done')
    for (const { mount } of roots) {
      const upper = mount.kind === 'overlay' ? mount.upper : ''
      expect((await readdir(upper)).filter((name) => name !== 'gone').toSorted()).toEqual(['early', 'later'])
    }
  },
)

test('the disk limit holds for files without a name in a root whose folders were moved', async () => {
  await using ground = await makeGround()
  const roots = await makeRoots(ground, ['A'])
  const workspace = { ...ground.request(['true']).workspace, roots }
  const script = `cd ${ground.folder}/A/w; mv ${ground.folder}/A ${ground.folder}/Z; exec 7>gone; rm gone; head -c 24M /dev/zero >&7; sleep 20`
  const run = async (limits: SandboxRequest['limits']) => {
    const request = ground.request(['sh', '-c', script], { workspace, cwd: '/tmp', limits })
    const { sandbox, finish } = await startOn(ground, request, host)
    await using _ = sandbox
    sandbox.release()
    return (await finish()).limits
  }
  expect(await run({ disk_mb: 8 })).toEqual(['disk'])
  await expect(access(join(ground.folder, 'Z'))).rejects.toThrow('ENOENT')
})
