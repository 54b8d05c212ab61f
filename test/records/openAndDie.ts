// Opens the store of a folder and kills itself, as a power cut would, just before its Nth step of work.
// Ends with 0 where there are fewer steps than that.
import Sqlite from 'better-sqlite3'
import { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const [dataDir = '', fatal = '0'] = process.argv.slice(2)
let steps = 0

function count(): void {
  if (++steps === Number(fatal)) process.kill(process.pid, 'SIGKILL')
}

function counted<Target extends object>(target: Target, names: readonly (keyof Target)[]): void {
  for (const name of names) {
    const original = target[name] as (...args: unknown[]) => unknown
    Object.assign(target, {
      [name](this: unknown, ...args: unknown[]) {
        count()
        return original.apply(this, args)
      },
    })
  }
}

counted(Sqlite.prototype as Sqlite.Database, ['exec', 'pragma', 'prepare', 'backup', 'close'])
counted(promises, ['open', 'rename', 'readdir', 'rm', 'mkdir'])
syncBuiltinESMExports()

const { openStore } = await import('../../src/engine/store/index.ts')
await (await openStore(dataDir)).close()
