import { chmod, chown, link, lstat, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { pathBytes, pathText } from '../bytes.ts'
import { type Ground, lookAtHost, makeGround, runIn } from '../fixture.ts'
import { withHidden } from './hide.ts'
import { currentHost, type HostFacts } from '../host/host.ts'
import { planSandbox } from './plan.ts'
import { mostFolders, SecretWatch } from './secretWatch.ts'
import { detectSecrets } from './systemView.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

const secret = 'never to be read\n'

/** A program in the place of `find`. */
async function withFind(ground: Ground, script: string): Promise<HostFacts> {
  const path = join(ground.folder, 'find')
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
  return { ...host, tools: { ...host.tools, find: path } }
}

async function hiddenBy(
  ground: Ground,
  facts: HostFacts,
  hide: readonly string[],
): Promise<readonly string[]> {
  const plan = await withHidden(planSandbox(ground.request(['true'], { hide }), facts))
  return plan.view.flatMap((step) =>
    step.kind === 'hidden' && step.why === 'hidden by the spec' ? [step.target] : [],
  )
}

test('what is hidden is hidden at both paths of a root, behind a link and whatever bytes its name has', async () => {
  await using ground = await makeGround()
  const alias = join(ground.folder, 'alias')
  await symlink(ground.root, alias)
  await mkdir(join(ground.root, 'conf'))
  for (const path of ['.env', 'conf/real', 'conf/far']) await writeFile(join(ground.root, path), secret)
  const odd = Buffer.concat([Buffer.from(`${ground.root}/odd`), Buffer.of(0xff), Buffer.from('.key')])
  await writeFile(odd, secret)
  await symlink('conf/real', join(ground.root, '.env.near'))
  await symlink(join(alias, 'conf/far'), join(ground.root, '.env.far'))
  await link(join(ground.root, 'conf/real'), join(ground.root, 'conf/other'))
  const request = ground.request(['true'])
  const roots = request.workspace.roots.map((root) => ({ ...root, target: alias }))
  const script = `for place in ${alias} ${ground.root}; do cd $place; cat .env .env.near .env.far conf/* *.key README.md; done 2>/dev/null`
  const changes = { cwd: alias, workspace: { ...request.workspace, roots } }
  const open = await runIn(ground, host, script, changes)
  expect(open.stdout.split(secret)).toHaveLength(15)
  const outcome = await runIn(ground, host, script, { ...changes, hide: ['.env*', '*.key'] })
  expect(outcome.stdout).toBe('original\noriginal\n')
  expect(await readdir(ground.upper)).toEqual([])
})

test('a file of a hidden folder is hidden by every other name it has in the roots', async () => {
  await using ground = await makeGround()
  const { root } = ground
  await mkdir(join(root, 'conf/deep'), { recursive: true })
  await mkdir(join(root, 'src'))
  for (const path of ['conf/key', 'conf/deep/key']) await writeFile(join(root, path), secret)
  await link(join(root, 'conf/key'), join(root, 'hard'))
  await link(join(root, 'conf/deep/key'), join(root, 'src/hard'))
  await link(join(root, 'README.md'), join(root, 'src/README.md'))
  const script = 'cat hard src/hard conf/key src/README.md 2>/dev/null'
  expect((await runIn(ground, host, script)).stdout).toBe(`${secret.repeat(3)}original\n`)
  expect((await runIn(ground, host, script, { hide: ['conf'] })).stdout).toBe('original\n')
})

test('a folder that cannot be listed is hidden whole', async () => {
  await using ground = await makeGround()
  const isRoot = process.getuid?.() === 0
  await chmod(ground.folder, 0o755)
  for (const [name, mode] of [
    ['unlistable', 0o311],
    ['closed', 0o644],
    ['open', 0o755],
  ] as const) {
    const folder = join(ground.root, name)
    await mkdir(folder)
    await writeFile(join(folder, '.env'), secret)
    if (isRoot) await chown(folder, 65_534, 65_534)
    await chmod(folder, mode)
  }
  await chmod(ground.upper, 0o755)
  const find = `"${host.tools.find ?? 'find'}" "$@"`
  const through = `case $1 in ${ground.root}) exec ${isRoot ? 'setpriv --reuid=65534 --regid=65534 --clear-groups ' : ''}${find};; esac; exec ${find}`
  const hidden = await hiddenBy(ground, await withFind(ground, through), ['.env'])
  const inRoot = ['closed', 'open/.env', 'unlistable'].map((path) => join(ground.root, path))
  expect([...hidden].sort()).toEqual(inRoot)
})

test('nothing starts where what is to be hidden cannot be looked for', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, '.env'), secret)
  expect(await hiddenBy(ground, host, ['.env'])).toHaveLength(1)
  await expect(
    hiddenBy(ground, await withFind(ground, 'echo "find: out of memory" >&2; exit 1'), ['.env']),
  ).rejects.toThrow('out of memory')
  await expect(hiddenBy(ground, await withFind(ground, 'kill -9 $$'), ['.env'])).rejects.toThrow('SIGKILL')
  const without = { ...host, tools: { ...host.tools, find: null } }
  expect(() => planSandbox(ground.request(['true']), without)).toThrow('find: not installed')
})

test("nothing starts where the search through software for root's secrets fails or does not finish", async () => {
  await using ground = await makeGround()
  const searched = async (script: string, uid = 0) => {
    const { tools } = await withFind(ground, `[ "$1" = /etc ] || ${script}`)
    const secrets = await detectSecrets(tools.find, { uid, timeoutMs: 300 })
    return () => planSandbox(ground.request(['true']), { ...host, ...secrets })
  }
  const refusal = { code: 'sandbox.secrets_unknown', kind: 'preflight' }
  const slow = await searched('exec sleep 20')
  expect(slow).toThrow('secrets: find did not finish looking through /opt and /usr/local')
  expect(slow).toThrow(expect.objectContaining(refusal))
  expect(await searched('{ echo "find: out of memory" >&2; exit 1; }')).toThrow(
    expect.objectContaining(refusal),
  )
  const usual = `{ echo "find: ‘/opt’: No such file or directory" >&2; exit 1; }`
  expect(await searched(usual)).not.toThrow()
  expect(await searched('exec sleep 20', 1000)).not.toThrow()
})

test('a file that goes while it is looked for is no failure', async () => {
  await using ground = await makeGround()
  const gone = await withFind(ground, `echo "$0: ‘a’: No such file or directory" >&2; exit 1`)
  expect(await hiddenBy(ground, gone, ['.env'])).toEqual([])
})

test('a path of any bytes comes back as it was', () => {
  for (const bytes of [Buffer.from('plain/ä/😀'), Buffer.of(0x61, 0xff, 0x2f, 0xc3, 0xa4, 0x80)]) {
    expect(pathBytes(pathText(bytes))).toEqual(bytes)
  }
  const mixed = `/😀/${pathText(Buffer.of(0xfe))}`
  expect(pathBytes(mixed)).toEqual(Buffer.concat([Buffer.from('/😀/'), Buffer.of(0xfe)]))
})

test('what is secret in /etc is looked for anew once a name there came or went, and not before', async () => {
  await using ground = await makeGround()
  expect(host.etcFolders.map(({ path }) => path)).toContain('/etc')
  // Others may be at work in the real one.
  const { ctimeMs: changed } = await lstat(ground.root)
  const facts = { ...host, secretPaths: [], etcFolders: [{ path: ground.root, changed }] }
  expect(await currentHost(facts, ground.dataDir)).toBe(facts)
  await writeFile(join(ground.root, 'new'), '')
  const current = await currentHost(facts, ground.dataDir)
  expect(current.secretPaths).toEqual(expect.arrayContaining(current.etcLayer?.hidden.slice() ?? []))
  expect(current.etcFolders.map(({ path }) => path)).toContain('/etc')
})

test('a folder of the system that is closed to others as a whole is hidden, and the run goes on', async () => {
  await using ground = await makeGround()
  const closed = { ...host, secretPaths: [...host.secretPaths, { kind: 'folder' as const, path: '/opt' }] }
  const outcome = await runIn(ground, closed, 'ls /opt 2>/dev/null || echo hidden')
  expect(outcome).toMatchObject({ exitCode: 0, stdout: 'hidden\n' })
})

test('a secret is looked for anew where a file was closed to others while somebody waited for a dispatch', async () => {
  await using ground = await makeGround()
  const { root } = ground
  await writeFile(join(root, 'plain'), '')
  await writeFile(join(root, 'closed'), '')
  const facts = {
    ...host,
    uid: 0,
    etcFolders: [{ path: root, changed: 0 }],
    searchedAtMs: Date.now() + 60_000,
    secretPaths: [{ kind: 'file' as const, path: join(root, 'closed') }],
  }
  using watch = new SecretWatch()
  await watch.start(facts, [])
  await writeFile(join(root, 'plain'), 'more')
  await chmod(join(root, 'closed'), 0o600)
  expect(await watch.isChanged()).toBe(false)
  await chmod(join(root, 'plain'), 0o600)
  await expect.poll(() => watch.isChanged()).toBe(true)
  // What came between the search and the watch.
  using late = new SecretWatch()
  await late.start({ ...facts, searchedAtMs: 0 }, [])
  expect(await late.isChanged()).toBe(true)
  // More of them than can be watched.
  using many = new SecretWatch()
  const gone = Array.from({ length: mostFolders }, () => ground.home)
  await many.start({ ...facts, etcFolders: [] }, [ground.home, ...gone])
  expect(await many.isChanged()).toBe(true)
  // Names of software, where a folder says nothing to who asks for its time.
  using software = new SecretWatch()
  await software.start({ ...facts, etcFolders: [] }, [ground.home])
  await mkdir(join(ground.home, 'new'))
  await expect.poll(() => software.isChanged()).toBe(true)
})
