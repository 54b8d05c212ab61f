import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { scratchFolder } from '../../src/engine/store/testing.ts'

test('a full disk is told in words, tears nothing, and once there is room everything goes on', async (context) => {
  await using scratch = await scratchFolder()
  const disk = join(scratch.path, 'disk')
  await mkdir(disk)
  const inside = 'mount -t tmpfs -o size=3m tmpfs "$1" && exec "$2" "$3" "$1"'
  const script = join(import.meta.dirname, 'fillDisk.ts')
  const result = await run('unshare', ['-Urm', 'sh', '-c', inside, 'sh', disk, process.execPath, script])
  if (/Operation not permitted/.test(result.stderr.toString())) context.skip('no user namespaces here')
  expect(result.stderr.toString()).toBe('')
  expect(JSON.parse(result.stdout.toString())).toEqual({
    failures: {
      store: 'store.unwritable',
      log: 'events.unwritable',
      close: '',
      migration: 'store.unwritable',
    },
    migration: { version: 17, leftovers: [], rowsAfterwards: 3 },
    finished: true,
    rows: true,
    whole: 'ok',
    proof: { ok: true, events: 51, problem: null },
  })
})
