import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { cache } from './places.mjs'
import { say } from './say.mjs'

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function read(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** Does the work while no other set-up of this checkout does. A lock whose holder died is taken over. */
export async function withLock(name, work) {
  mkdirSync(cache, { recursive: true })
  const lock = join(cache, `${name}.lock`)
  const mine = `${lock}.${process.pid}`
  writeFileSync(mine, `${process.pid}\n`)
  let told = false
  try {
    for (;;) {
      try {
        linkSync(mine, lock)
        break
      } catch (error) {
        if (error.code !== 'EEXIST') throw error
      }
      const held = read(lock)
      if (held !== undefined && !isAlive(Number(held))) {
        // Moved aside before it is removed: whoever else saw it dead must not remove a fresh one.
        const aside = `${mine}.dead`
        try {
          renameSync(lock, aside)
          if (read(aside) !== held) linkSync(aside, lock)
        } catch {
          // Another set-up was quicker; look again.
        }
        rmSync(aside, { force: true })
        continue
      }
      if (!told) say(`waiting for another set-up of this folder (process ${held?.trim() ?? 'unknown'})`)
      told = true
      await sleep(200)
    }
    try {
      return await work()
    } finally {
      rmSync(lock, { force: true })
    }
  } finally {
    rmSync(mine, { force: true })
  }
}
