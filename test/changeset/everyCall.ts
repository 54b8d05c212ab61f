import childProcess from 'node:child_process'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const reading = new Set(['access', 'lstat', 'readdir', 'readFile', 'readlink', 'realpath', 'stat', 'opendir'])
type Call = (...args: unknown[]) => unknown

/**
 * Tells of every call to the file system and every program that our code starts, ahead of it: a commit is made by both,
 * without a disk that could be watched. What calls at once, without a promise, is the harness itself.
 */
export function watchCalls(before: (call: string, isReading: boolean) => void): Disposable {
  const undo: (() => void)[] = []
  const wrap = (object: Record<string, Call>, name: string, change: (call: Call) => Call) => {
    const own = object[name]
    if (own === undefined) return
    object[name] = change(own)
    undo.push(() => (object[name] = own))
  }
  const told =
    (name: string): ((call: Call) => Call) =>
    (call) =>
      function (this: unknown, ...args: unknown[]) {
        before(name, reading.has(name))
        return call.apply(this, args)
      }
  const calls = fs as unknown as Record<string, Call>
  for (const name of Object.keys(calls)) {
    if (typeof calls[name] !== 'function') continue
    wrap(calls, name, (call) => {
      const watched = told(name)(call)
      if (name !== 'open') return watched
      return async (...args) => {
        const handle = (await watched(...args)) as Record<string, Call>
        for (const each of ['write', 'writeFile', 'truncate', 'chmod', 'close'])
          handle[each] = told(`file.${each}`)(handle[each] as Call)
        return handle
      }
    })
  }
  wrap(childProcess as unknown as Record<string, Call>, 'spawn', (call) => {
    return (...args) => {
      before(
        `${args[0]} ${(args[1] as string[]).filter((word) => /^[a-z-]+$/.test(word)).slice(0, 2)}`,
        false,
      )
      return call(...args)
    }
  })
  syncBuiltinESMExports()
  return {
    [Symbol.dispose]() {
      for (const each of undo) each()
      syncBuiltinESMExports()
    },
  }
}
