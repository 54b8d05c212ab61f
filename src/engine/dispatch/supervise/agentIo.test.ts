import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { pipeIo } from './agentIo.ts'

test('output that is let go of before anybody waits for its end breaks off for who does, and for nobody else', async () => {
  const io = await pipeIo(tmpdir())
  io.start(() => {})
  io[Symbol.dispose]()
  // Without a listener by now, the run of the tests fails on an unhandled rejection.
  await sleep(20)
  await expect(io.drained()).rejects.toThrow('Premature close')
})
