import { chmod, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type Ground, lookAtHost, makeGround, runIn } from '../fixture.ts'
import type { HostFacts } from '../host/host.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

/** As with `--changeset none`: what is written is the user's own files. */
function realFiles(ground: Ground) {
  const { workspace } = ground.request(['true'])
  const roots = workspace.roots.map((root) => ({
    ...root,
    mount: { kind: 'bind' as const, source: ground.root },
  }))
  return { workspace: { ...workspace, roots } }
}

const modeOf = async (ground: Ground, name: string) => (await stat(join(ground.root, name))).mode & 0o7777

test('an agent with the real files cannot plant a set-uid program on the host', async () => {
  await using ground = await makeGround()
  const script = `cp /usr/bin/id sid; chmod 4755 sid && echo planted
    chmod u+s sid && echo planted; install -m 4755 /usr/bin/id sid2 && echo planted
    chmod 711 sid; echo done`
  const outcome = await runIn(ground, host, script, realFiles(ground))
  expect(outcome.stdout).toBe('done\n')
  expect(outcome.stderr).toContain('Operation not permitted')
  // The control: other modes do reach the host.
  expect(await modeOf(ground, 'sid')).toBe(0o711)
  await expect(modeOf(ground, 'sid2').catch(() => 0)).resolves.not.toBeGreaterThan(0o777)
})

test('nor by openat2, whose mode no filter can read, nor a set-gid one where nothing is shared by a group', async () => {
  await using ground = await makeGround()
  const script = `perl -e '$p = "planted"; $h = pack("QQQ", 0101, 04755, 0); $d = syscall(437, -100, $p, $h, 24); print $d == -1 && $!{ENOSYS} ? "none\\n" : "made\\n"'
    touch plain; chmod 2755 plain && echo planted; chmod 755 plain && echo control`
  const outcome = await runIn(ground, host, script, realFiles(ground))
  expect(outcome.stdout).toBe('none\ncontrol\n')
  expect(await modeOf(ground, 'plain')).toBe(0o755)
  await expect(modeOf(ground, 'planted')).rejects.toThrow('ENOENT')
})

test('ordinary trees, set-gid folders among them, are copied, packed and shared as ever', async () => {
  await using ground = await makeGround()
  await chmod(ground.root, 0o2775)
  const script = `set -e
    mkdir tree; mkdir -m 2775 tree/shared; echo text >tree/shared/file; chmod 755 tree/shared/file
    cp -a tree copy; tar cf tree.tar tree; mkdir out; tar xpf tree.tar -C out
    cp /usr/bin/su su; chmod g+w copy/shared; mkfifo pipe; mktemp >/dev/null; stat -c %a out/tree/shared copy/shared`
  const outcome = await runIn(ground, host, script, realFiles(ground))
  expect(outcome).toMatchObject({ exitCode: 0, stdout: '2775\n2775\n', stderr: '' })
})
