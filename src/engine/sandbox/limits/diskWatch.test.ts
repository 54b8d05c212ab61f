import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { watchDisk, type DiskWatched } from './diskWatch.ts'

/** A disk that somebody writes to, and what was asked of the watch meanwhile. */
function makeDisk(lookMs: number, changes: Partial<DiskWatched> = {}) {
  const state = { counted: 0, used: 1000, looks: 0, holds: 0, isHeld: false, over: '' }
  const watched: DiskWatched = {
    look: async () => {
      state.looks++
      const { counted } = state
      await sleep(lookMs)
      return { bytes: state.isHeld ? state.counted : counted, isWhole: true }
    },
    used: async () => ({ bytes: state.used, filled: state.used }),
    hasParked: async () => false,
    hold: async () => {
      state.holds++
      state.isHeld = true
      return {
        async [Symbol.asyncDispose]() {
          state.isHeld = false
        },
      }
    },
    limitBytes: 100,
    ownBytes: 100,
    ...changes,
  }
  const ending = new AbortController()
  const done = watchDisk(watched, ending.signal, (certainty) => (state.over = certainty))
  return {
    state,
    write(bytes: number) {
      state.counted += bytes
      state.used += bytes
    },
    async [Symbol.asyncDispose]() {
      ending.abort()
      await done
    },
  }
}

test('a disk that filled by as much as is left is looked at at once, however long looks take', async () => {
  await using disk = makeDisk(150)
  await sleep(250)
  expect(disk.state.looks).toBe(1)
  disk.write(101)
  await sleep(500)
  expect(disk.state).toMatchObject({ over: 'certain', looks: 2 })
})

test('nothing runs while a long look is taken at a disk that may be over its limit, and everything does again after it', async () => {
  await using disk = makeDisk(800)
  disk.write(50)
  disk.state.used += 80
  await sleep(600)
  expect(disk.state).toMatchObject({ holds: 1, isHeld: true })
  await sleep(400)
  expect(disk.state.over).toBe('')
  expect(disk.state.holds).toBe(1)
  expect(disk.state.isHeld).toBe(false)
})

test('what others write beside a run is not its own, unless files of it cannot be looked at', async () => {
  await using alone = makeDisk(1)
  await using hiding = makeDisk(1, { hasParked: async () => true })
  await using uncounted = makeDisk(1, { look: async () => ({ bytes: 0, isWhole: false }) })
  await sleep(50)
  for (const { state } of [alone, hiding, uncounted]) state.used += 500
  await sleep(1200)
  expect([alone.state.over, hiding.state.over, uncounted.state.over]).toEqual(['', 'likely', 'likely'])
})
