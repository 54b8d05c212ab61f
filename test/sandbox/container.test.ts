import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { DoctorReport } from '../../src/shared/doctor.ts'
import { engines, openEngine, type Engine } from '../containers.ts'

const repository = join(import.meta.dirname, '../..')
const script = `
export HOME=/tmp/home ORANGERY_DATA_DIR=/data
mkdir -p $HOME /tmp/project
cd /tmp/project
git init -q
git -c user.name=n -c user.email=e commit -q --allow-empty -m first
orangery doctor --json
echo ---
orangery run -- sh -c 'echo made >made; touch /usr/escaped || echo kept' 2>&1
echo "ended with $?"
ls
`

/** What the doctor says in a container that was started so, and how a run there ends. */
async function tryWithin(engine: Engine, options: readonly string[]) {
  await using container = await engine.start({
    network: 'none',
    options,
    mounts: ['/usr', repository].map((path) => ({ from: path, to: path })),
    environment: { PATH: `${join(repository, 'bin')}:/usr/bin:/usr/sbin` },
    command: ['sh', '-c', script],
  })
  await once(container.child, 'close')
  const [report = '', ran = ''] = container.text().split('\n---\n')
  const { levels } = JSON.parse(report) as DoctorReport
  const level = levels.find((candidate) => candidate.level === 1)
  return { level, failed: level?.checks.filter(({ ok }) => !ok) ?? [], ran }
}

/** The options of the command that the doctor gives. */
const optionsOf = (name: string, fix: string | null | undefined): readonly string[] => {
  const command = new RegExp(`^${name} run (.+) …$`).exec(fix ?? '')?.[1]
  expect(command).toBeDefined()
  return (command ?? '').split(' ')
}

test.for(engines.filter((name) => name !== 'bubblewrap'))(
  'within %s the doctor names what refuses, a run refuses with the same words, and each command that it gives helps',
  async (name, { skip }) => {
    const opened = await openEngine(name)
    if (typeof opened === 'string') return skip(opened)
    await using engine = opened

    const plain = await tryWithin(engine, [])
    const [cause] = plain.failed
    expect(plain.level?.available).toBe(false)
    expect(plain.failed).toHaveLength(1)
    expect(cause?.detail).toMatch(new RegExp(`^${name} around us (refuses|covers)`, 'i'))
    expect(plain.ran).toContain(`${cause?.name}: ${cause?.detail}\n  hint: ${cause?.fix}\nended with 69`)

    const loose = optionsOf(name, cause?.fix)
    const started = await tryWithin(engine, loose)
    const [overlay, fuse] = started.failed
    expect(started.level).toMatchObject({ available: true, workspace: 'copy' })
    expect(overlay).toMatchObject({ name: 'kernel overlay', detail: expect.stringContaining('on overlay') })
    expect(fuse).toMatchObject({ name: 'fuse-overlayfs', detail: 'there is no /dev/fuse' })
    expect(started.ran).toContain('kept\n')
    expect(started.ran).toMatch(/1 change \(\+1 -0\), waiting for review\n[^\n]*\nended with 0\n$/)

    const withFuse = await tryWithin(engine, [...loose, ...optionsOf(name, fuse?.fix)])
    expect(withFuse.level).toMatchObject({ available: true, workspace: 'fuse-overlayfs' })
    const withVolume = await tryWithin(engine, [...loose, ...optionsOf(name, overlay?.fix)])
    expect(withVolume.level).toMatchObject({ available: true, workspace: 'kernel-overlay' })
    for (const { ran } of [withFuse, withVolume]) expect(ran).toContain('ended with 0\n')
  },
)

test('within podman a seccomp filter that keeps only the host name from being set is found before a run', async ({
  skip,
}) => {
  const opened = await openEngine('podman')
  if (typeof opened === 'string') return skip(opened)
  await using engine = opened
  const { failed, ran } = await tryWithin(engine, ['--security-opt', 'unmask=ALL'])
  expect(failed[0]).toMatchObject({
    name: 'bubblewrap starts',
    fix: expect.stringContaining('seccomp=unconfined'),
  })
  expect(ran).toContain('ended with 69')
})
