import { lstat, statfs } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { lookAtHost, makeGround, runIn, startOn } from '../fixture.ts'
import type { HostFacts } from '../host/host.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

const everyDescriptor = 'for each in /proc/1/fd/*; do'

describe('through the descriptors of the first process inside', () => {
  test('an agent that grows them to 5 GB neither crashes its supervisor nor changes how the run ends', async () => {
    await using ground = await makeGround()
    const script = `${everyDescriptor} truncate -s 5G "$each" && echo "grew $each"; done; sleep 20`
    const outcome = await runIn(ground, host, `truncate -s 5G ~/control && echo control; ${script}`, {
      limits: { timeout_s: 1 },
    })
    expect(outcome).toMatchObject({ stdout: 'control\n', limits: ['timeout'], signal: 'SIGTERM' })
  })

  test('an agent that writes 64 MB to each of them fills no memory of the host', async () => {
    await using ground = await makeGround()
    const write = 'head -c 64M /dev/zero 2>/dev/null'
    const script = `${write} >~/big; ${everyDescriptor} ${write} >"$each"; done; touch ~/ready; sleep 20`
    const freeMb = async () => {
      const { bfree, bsize } = await statfs('/dev/shm')
      return (bfree * bsize) / 1024 / 1024
    }
    const before = await freeMb()
    const { sandbox } = await startOn(ground, ground.request(['sh', '-c', script]), host)
    await using _ = sandbox
    sandbox.release()
    await ground.waitForHome('ready')
    expect((await lstat(`${ground.home}/big`)).size).toBe(64 * 1024 * 1024)
    expect(before - (await freeMb())).toBeLessThan(32)
  })

  test('there is no file of the host to be opened again, and none of its own is one', async () => {
    await using ground = await makeGround()
    const script = `${everyDescriptor} [ -f "$each" ] && echo "file $each"; done; [ -f /proc/self/fd/1 ] && echo control`
    expect((await runIn(ground, host, script)).stdout).toBe('control\n')
  })

  test("an agent run by root cannot change the mode of the host's /dev/null", async () => {
    await using ground = await makeGround()
    // To the mode it has: had it succeeded, nothing would be broken.
    const script = `touch ~/own && chmod 666 ~/own && echo control
      for each in /proc/1/fd/* /proc/self/fd/0 /dev/null; do
        if [ "$each" -ef /dev/null ] && chmod 666 "$each"; then echo "changed $each"; fi
      done`
    const outcome = await runIn(ground, host, script)
    expect(outcome.stdout).toBe('control\n')
    expect(outcome.stderr.match(/chmod: .*(Read-only|not permitted)/g)).toHaveLength(3)
  })
})
