// Opens the store of a folder and, just before each step of work, keeps a copy of it as kill -9 would leave it:
// what was written is with the kernel, what was not is nowhere. Before step N it really kills itself; with 0 it
// lives to the end.
import Sqlite from 'better-sqlite3'
import { cpSync, promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'

const [dataDir = '', fatal = '0', copies = ''] = process.argv.slice(2)
let steps = 0

function count(): void {
  steps++
  if (steps === Number(fatal)) process.kill(process.pid, 'SIGKILL')
  if (copies !== '') cpSync(dataDir, join(copies, String(steps)), { recursive: true })
}

function counted<Target extends object>(target: Target, names: readonly (keyof Target)[]): void {
  for (const name of names) {
    const original = target[name] as (...args: unknown[]) => unknown
    Object.assign(target, {
      [name](this: unknown, ...args: unknown[]) {
        // What is in memory only is nothing a crash could harm.
        if ((this as { readonly name?: string } | undefined)?.name !== ':memory:') count()
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
process.stdout.write(String(steps))
