import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as soon } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { openParts } from '../openParts.ts'
import { sweep } from './sweep.ts'

const door = join(import.meta.dirname, '../../sandbox/index.ts')
const look = `const { detectHost } = await import(${JSON.stringify(door)}); for (;;) await detectHost(process.argv[1])`

/** Folders with the layers of an overlay in them, wherever in the data folder. */
const trialsIn = (dataDir: string): readonly string[] =>
  [dataDir, join(dataDir, 'spares')].flatMap((place) =>
    (existsSync(place) ? readdirSync(place) : []).filter((name) => existsSync(join(place, name, 'upper'))),
  )

test('the trial of an overlay goes with its owner, also by kill -9, and not before', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'orangery-sweep-'))
  const owner = spawn(process.execPath, ['--input-type=module', '-e', look, dataDir], { stdio: 'ignore' })
  try {
    await using parts = await openParts({ dataDir, configDir: join(dataDir, 'config') })
    for (;;) {
      while (trialsIn(dataDir).length === 0) await soon()
      owner.kill('SIGSTOP')
      // One that was just being taken away is none to look at.
      await new Promise((resolve) => setTimeout(resolve, 200))
      if (trialsIn(dataDir).length > 0) break
      owner.kill('SIGCONT')
    }
    await sweep(parts)
    expect(trialsIn(dataDir)).toHaveLength(1)
    owner.kill('SIGKILL')
    await once(owner, 'exit')
    await sweep(parts)
    expect(trialsIn(dataDir)).toEqual([])
    expect(await readdir(join(dataDir, 'spares'))).toEqual([])
  } finally {
    owner.kill('SIGKILL')
    await rm(dataDir, { recursive: true, force: true })
  }
})
