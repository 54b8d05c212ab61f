import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { childrenOf, readProcess } from '../holder/chain.ts'
import { mostDenied } from './deniedWrites.ts'
import { makeGround, startOn, type Ground } from '../fixture.ts'
import { detectHost, type HostFacts } from '../host/host.ts'

let ground: Ground
let host: HostFacts
beforeAll(async () => {
  // Inside, what lies above a root can be moved there alone.
  ground = await makeGround('project', '/tmp')
  host = await detectHost(ground.dataDir)
  for (const name of ['times', 'owner', 'attribute']) await writeFile(join(ground.root, name), '')
  await symlink('/tmp/out', join(ground.root, 'leads-out'))
})
afterAll(() => ground[Symbol.asyncDispose]())

async function seenIn(script: string, changes: Partial<SandboxRequest> = {}) {
  const request = ground.request(['sh', '-c', script], { files: 'ro', ...changes })
  const { sandbox, finish } = await startOn(ground, request, host)
  const seen: string[] = []
  sandbox.onDeniedWrite((path) => seen.push(path ?? 'enough'))
  sandbox.release()
  const outcome = await finish()
  return { seen: seen.map((path) => path.replace(ground.root, '')), outcome, sandbox }
}

test.each([0, 1] as const)(
  'at level %i a write that the read-only workspace denies is seen, whatever way it goes and whatever is printed',
  async (level) => {
    const { seen, outcome } = await seenIn(
      `exec 2>/dev/null
      (echo x >new); (echo x >>README.md); mkdir folder; rm README.md; mv README.md moved; ln -s a link
      cd /tmp && (echo x >'${ground.root}/from afar'); echo done`,
      { level, network: level === 0 ? 'host' : 'none' },
    )
    expect(outcome).toMatchObject({ exitCode: 0, stdout: 'done\n', stderr: '' })
    expect(seen).toEqual(['/new', '/README.md', '/folder', '/moved', '/link', '/from afar'])
  },
)

test('a change of mode, owner, times or attributes that is denied is seen, and none through a link that leads out', async () => {
  const { seen, outcome } = await seenIn(
    `chmod +x README.md; chmod 600 absent; ln -s '${ground.root}/README.md' /tmp/in; : >/tmp/out; mkdir /tmp/there; chmod 600 /tmp/out
    python3 -c '
import os, sys
root = sys.argv[1]
for change in (lambda: os.utime(root + "/times", (1, 1)), lambda: os.chown(root + "/owner", -1, os.getgid()),
               lambda: os.setxattr(root + "/attribute", "user.x", b"x"), lambda: os.chmod("/tmp/in", 0o600), lambda: os.chmod(root + "/leads-out", 0o600)):
    try: change(); print("done")
    except OSError as error: print(error.errno)' "$PWD"`,
  )
  expect(outcome.stdout).toBe('30\n30\n30\n30\ndone\n')
  expect(seen).toEqual(['/README.md', '/times', '/owner', '/attribute'])
})

test('of a flood of denied writes so many are told, and that there are more', async () => {
  const { seen } = await seenIn(`exec 2>/dev/null; for n in $(seq ${mostDenied + 20}); do mkdir "d$n"; done`)
  expect(seen).toHaveLength(mostDenied + 1)
  expect(seen.at(-1)).toBe('enough')
})

test('a denied write is seen, and told by the name of its root, where the folders above it were moved', async () => {
  const { seen } = await seenIn(
    `mv '${ground.folder}' '${ground.folder}-moved'; (echo x >here); cd /; (echo x >'${ground.folder}-moved/project/there')`,
  )
  expect(seen).toEqual(['/here', '/there'])
})

test('neither words nor reading nor writing elsewhere passes for a denied write', async () => {
  const { seen, outcome } = await seenIn(
    `echo "touch: cannot touch '${ground.root}/lie': Read-only file system" | tee /dev/stderr
    cat README.md; mkdir -p .; rm -f absent; echo x >/tmp/x; echo x >~/x; (echo x >/usr/x); (echo x >/etc/x)
    ln -s /usr/bin/env /tmp/link; (echo x >/tmp/link); exit 3`,
  )
  expect(outcome.exitCode).toBe(3)
  expect(seen).toEqual([])
})

test('who becomes writable goes on, and is not watched where it starts writable', async () => {
  const script = 'until echo x >made; do sleep 0.02; done 2>/dev/null; cat made'
  const request = ground.request(['sh', '-c', script], { files: 'ro' })
  const { sandbox, finish } = await startOn(ground, request, host)
  const denied = new Promise<string | null>((resolve) => sandbox.onDeniedWrite(resolve))
  sandbox.release()
  expect(await denied).toBe(`${ground.root}/made`)
  await sandbox.setFiles('rw')
  expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'x\n' })
  expect((await seenIn('true', { files: 'rw' })).sandbox.seesDeniedWrites).toBe(false)
})

test('the end of who watches is the end of the sandbox, and said to be', async () => {
  const request = ground.request(['sleep', '60'], { files: 'ro' })
  const { sandbox, finish } = await startOn(ground, request, host)
  sandbox.release()
  const watchers = childrenOf(process.pid).filter((pid) =>
    readProcess(pid, 'cmdline').endsWith(`\0${ground.root}\0`),
  )
  expect(watchers).toHaveLength(1)
  for (const pid of watchers) process.kill(pid, 'SIGKILL')
  expect(await finish()).toMatchObject({ lost: 'the process that watches writes was killed' })
})

test('where nobody can watch, the sandbox holds all the same', async () => {
  const blind = { ...host, tools: { ...host.tools, nsenter: '/bin/false' } }
  const request = ground.request(['sh', '-c', 'echo x >denied || echo held'], { files: 'ro' })
  const { sandbox, finish } = await startOn(ground, request, blind)
  expect(sandbox.seesDeniedWrites).toBe(false)
  sandbox.release()
  expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'held\n' })
})
