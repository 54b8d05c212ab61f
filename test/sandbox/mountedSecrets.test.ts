import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'orangery-mounted-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const station = join(import.meta.dirname, '../../src/engine/sandbox')

/** Something of the host is mounted inside folders of the system: in a mount namespace of its own. */
const setUp = `
mount -t tmpfs none "$PWD"; cd "$PWD"
mount -t tmpfs none /opt; mkdir /opt/vault /opt/far /opt/late
mount -t tmpfs none /opt/vault; mkdir /opt/vault/inner; mount -t tmpfs none /opt/vault/inner
mount -t proc none /opt/far
mkdir etc; cp -a /etc/. etc; mkdir etc/mounted; mount --bind etc /etc; mount -t tmpfs none /etc/mounted
for file in /opt/beside /opt/vault/key /opt/vault/inner/key /etc/mounted/key; do echo "SECRET $file" >$file; chmod 600 $file; done
echo shown >/opt/vault/open`

async function onHost(script: string): Promise<Record<string, unknown>> {
  const whole = `
const at = process.argv[1]
const { makeGround, runIn } = await import(at + '/fixture.ts')
const { currentHost, detectHost } = await import(at + '/host/host.ts')
const { lesserOn } = await import(at + '/plan/lesserView.ts')
const { SecretWatch } = await import(at + '/plan/secretWatch.ts')
const { execFileSync } = await import('node:child_process')
const sh = (line) => execFileSync('sh', ['-ec', line]).toString()
await using ground = await makeGround()
const host = await detectHost(ground.dataDir)
${script}
console.log(JSON.stringify(said))`
  const args = [
    '-m',
    'sh',
    '-ec',
    `${setUp}\nexec "$1" --disable-warning=ExperimentalWarning --input-type=module -e "$2" "$3"`,
  ]
  const result = await run('unshare', [...args, 'sh', process.execPath, whole, station], { cwd: folder })
  if (result.code !== 0) throw new Error(result.stderr.toString())
  return JSON.parse(result.stdout.toString()) as Record<string, unknown>
}

const isRoot = process.getuid?.() === 0
const why = 'what only root may read is a secret to an agent of root alone'

describe('of what the host has mounted inside folders of the system', () => {
  const read =
    'cat /opt/beside /opt/vault/key /opt/vault/inner/key /etc/mounted/key /opt/far/version /opt/vault/open 2>/dev/null'

  test('an agent of root reads nothing that other users may not, and all else', async ({ skip }) => {
    skip(!isRoot, why)
    const said = await onHost(`
const control = sh(${JSON.stringify(read)})
const { stdout } = await runIn(ground, host, ${JSON.stringify(read)})
const said = { control, stdout }`)
    expect(String(said['control']).match(/SECRET/g)).toHaveLength(4)
    expect(said['stdout']).toBe('shown\n')
  })

  test('what cannot be looked through is covered as a whole, and that is told', async ({ skip }) => {
    skip(!isRoot, why)
    const { lesser } = await onHost('const said = { lesser: lesserOn(host) }')
    expect(lesser).toContainEqual(expect.stringMatching(/^\/opt\/far: .*covered as a whole$/))
  })

  test('what comes while somebody waits for a dispatch is hidden too, and so is what is closed', async ({
    skip,
  }) => {
    skip(!isRoot, why)
    const said = await onHost(`
const paths = ({ secretPaths }) => secretPaths.map(({ path }) => path)
sh('mount -t tmpfs none /opt/late; echo x >/opt/late/key; chmod 600 /opt/late/key')
const current = await currentHost(host, ground.dataDir)
const isSame = (await currentHost(current, ground.dataDir)) === current
using watch = new SecretWatch()
await watch.start({ ...current, searchedAtMs: Date.now() + 60_000 })
const before = await watch.isChanged()
sh('chmod 600 /opt/vault/open')
for (let i = 0; i < 100 && !(await watch.isChanged()); i++) await new Promise((done) => setTimeout(done, 20))
const said = { first: paths(host), then: paths(current), isSame, before, after: await watch.isChanged() }`)
    expect(said['first']).not.toContain('/opt/late/key')
    expect(said['then']).toContain('/opt/late/key')
    expect(said).toMatchObject({ isSame: true, before: false, after: true })
  })
})
