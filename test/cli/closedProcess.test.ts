import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import { asUser, ordinaryUser } from './ordinaryUser.ts'

const begin = `import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
`
/** From then on only root can list what it has open. */
const close = `${begin}libc.prctl(4, 0, 0, 0, 0)\n`
const fill = `for i in range(20):
  f = os.open("x", os.O_RDWR | os.O_CREAT)
  os.unlink("x")
  os.write(f, b"1" * (10 << 20))
  time.sleep(0.05)
`
const hidings = [
  ['a process that closed its descriptors to us', `${close}${fill}`],
  ['one page of a mapping', `${begin}${fill}  libc.mmap(None, 4096, 1, 1, f, 0)\n  os.close(f)\n`],
] as const

test.for(hidings)(
  'the disk limit of an ordinary user holds for files without a name behind %s',
  { timeout: 60_000 },
  async ([, script], context) => {
    using place = new Place('launcher')
    const user = ordinaryUser(place)
    if (typeof user === 'string') return context.skip(user)
    const command = ['python3', '-c', `${script}time.sleep(20)`]
    const ran = await asUser(place, user, {}, 'run', '--disk-mb', '16', '--', ...command)
    expect(ran).toMatchObject({ code: 137, stderr: expect.stringContaining('reached its disk limit') })
  },
)

test('narrowing names and ends a writer that closed its descriptors to us, and nobody beside it', async (context) => {
  using place = new Place('launcher')
  const user = ordinaryUser(place)
  if (typeof user === 'string') return context.skip(user)
  const script = `${close}f = open("log", "w")\ntime.sleep(60)`
  const command = ['sh', '-c', 'python3 -c "$0" & sleep 8 && echo stayed; wait', script]
  const running = asUser(place, user, {}, 'run', '--', ...command)
  await sleep(3000)
  const listed = await asUser(place, user, {}, 'dispatch', 'list', '--json')
  const [{ id }] = JSON.parse(listed.stdout) as [{ id: string }]
  expect(await asUser(place, user, {}, 'boundary', 'narrow', id, 'readonly')).toMatchObject({ code: 0 })
  expect((await running).stdout).toBe('stayed\n')
  const status = await asUser(place, user, {}, 'dispatch', 'status', id, '--json')
  expect(status.stdout).toMatch(/"why": "ended python3 \(\d+\) with a file, which did not let go in time"/)
})
