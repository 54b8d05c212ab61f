import { access, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { makeGround, runIn, startOn } from './fixture.ts'
import { detectHost, type HostFacts } from './host.ts'
import { describePlan, planSandbox } from './index.ts'

let host: HostFacts
beforeAll(async () => {
  await using ground = await makeGround()
  host = await detectHost(ground.dataDir)
})

describe('a level-1 sandbox', () => {
  test('shows the checkout at its own path and keeps what is written there out of it', async () => {
    await using ground = await makeGround()
    const outcome = await runIn(ground, host, 'pwd; cat README.md; echo changed >README.md; echo new >new')
    expect(outcome).toMatchObject({
      exitCode: 0,
      signal: null,
      stdout: `${ground.root}\noriginal\n`,
      stderr: '',
    })
    expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
    expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
    await expect(access(join(ground.root, 'new'))).rejects.toThrow('ENOENT')
  })

  test("reports the command's own exit code, and its signal as 128 + n", async () => {
    await using ground = await makeGround()
    expect(await runIn(ground, host, 'exit 7')).toMatchObject({ exitCode: 7, signal: null })
    expect(await runIn(ground, host, 'kill -TERM $$')).toMatchObject({ exitCode: 143, signal: 'SIGTERM' })
    const { sandbox, finish } = await startOn(ground, ground.request(['no-such-command']), host)
    sandbox.release()
    expect(await finish()).toMatchObject({ exitCode: 127 })
  })

  test('finds itself to be what was declared, before the first instruction', async () => {
    await using ground = await makeGround()
    const { sandbox, finish } = await startOn(ground, ground.request(['touch', 'started']), host)
    await using _ = sandbox
    expect(sandbox.probe.checks.filter((check) => !check.ok)).toEqual([])
    await expect(access(join(ground.upper, 'started'))).rejects.toThrow('ENOENT')
    sandbox.release()
    expect(await finish()).toMatchObject({ exitCode: 0 })
    await access(join(ground.upper, 'started'))
  })

  test('is read-only for a running process until it is widened, and again when narrowed', async () => {
    await using ground = await makeGround()
    const script =
      'touch one 2>/dev/null || echo refused; touch ~/ready; while ! touch two 2>/dev/null; do sleep 0.01; done; echo wide; ' +
      'while touch two 2>/dev/null; do sleep 0.01; done; echo narrow'
    const { sandbox, finish } = await startOn(
      ground,
      ground.request(['sh', '-c', script], { files: 'ro' }),
      host,
    )
    await using _ = sandbox
    sandbox.release()
    await ground.waitForHome('ready')
    await sandbox.setFiles('rw')
    await expect
      .poll(() =>
        access(join(ground.upper, 'two')).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true)
    await sandbox.setFiles('ro')
    expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'refused\nwide\nnarrow\n' })
  })

  test('takes roots whose paths hold every awkward character', async () => {
    await using ground = await makeGround('a b:c,d\\e"f\'g\nh$(i)*')
    const outcome = await runIn(ground, host, 'cat README.md; echo changed >README.md')
    expect(outcome).toMatchObject({ exitCode: 0, stdout: 'original\n', stderr: '' })
    expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
  })

  test('that is killed while it waits or runs ends for good', async () => {
    await using ground = await makeGround()
    const { sandbox, finish } = await startOn(ground, ground.request(['sleep', '1000']), host)
    sandbox.release()
    await sandbox.kill()
    expect(await finish()).toMatchObject({ exitCode: 137, signal: 'SIGKILL' })
  })
})

describe('level 0', () => {
  test('keeps the changeset but hides nothing', async () => {
    await using ground = await makeGround()
    await writeFile(join(ground.folder, 'beside'), 'seen\n')
    const outcome = await runIn(ground, host, 'cat ../beside; id -u; echo changed >README.md', {
      level: 0,
      network: 'host',
    })
    expect(outcome).toMatchObject({ exitCode: 0, stdout: `seen\n${host.uid}\n`, stderr: '' })
    expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
    expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
  })
})

test('a plan reads the same each time it is described', async () => {
  await using ground = await makeGround()
  const request = ground.request(['true'])
  expect(describePlan(planSandbox(request, host))).toBe(describePlan(planSandbox(request, host)))
})
