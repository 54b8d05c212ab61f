import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createEventLog, verifyEvents } from '../../src/engine/store/index.ts'
import { scratchFolder } from '../../src/engine/store/testing.ts'

test('kill -9 of a writer at any moment loses no event it had flushed, and the chain goes on', async () => {
  await using scratch = await scratchFolder()
  const path = join(scratch.path, 'events.ndjson')
  for (let round = 0; round < 4; round++) {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'appendForever.ts'), path])
    let printed = ''
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
    await once(child.stdout, 'data')
    await sleep(Math.random() * 150)
    child.kill('SIGKILL')
    await once(child, 'close')
    const flushed = Number(printed.trimEnd().split('\n').at(-1))
    const log = await createEventLog(path)
    const { seq } = log.append({ type: 'Note', text: 'recovered' })
    await log.close()
    expect(seq).toBeGreaterThan(flushed)
    expect(await verifyEvents(path, log.lastHash)).toMatchObject({ ok: true, events: seq, problem: null })
  }
})
