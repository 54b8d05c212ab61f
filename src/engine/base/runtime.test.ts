import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { ensureRuntimeDir, knownRuntimeDir } from './runtime.ts'

const made: string[] = []
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'orangery-runtime-'))
  made.push(path)
  return path
}
afterEach(() => {
  for (const path of made.splice(0)) rmSync(path, { recursive: true, force: true })
})

test('a shell with another environment finds the same folder', async () => {
  const [dataDir, session] = [folder(), folder()]
  expect(await knownRuntimeDir(dataDir)).toBeNull()
  const first = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  expect(dirname(dirname(first))).toBe(session)
  expect(statSync(first).mode & 0o777).toBe(0o700)
  expect(await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: folder() })).toBe(first)
  expect(await knownRuntimeDir(dataDir)).toBe(first)
})

test('a folder that is gone after a restart is made again', async () => {
  const [dataDir, session] = [folder(), folder()]
  const first = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  rmSync(dirname(first), { recursive: true })
  expect(await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })).toBe(first)
})

test('a folder that others may enter, or a link to one, is not taken', async () => {
  const [dataDir, session] = [folder(), folder()]
  const first = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  chmodSync(first, 0o755)
  expect(await knownRuntimeDir(dataDir)).toBeNull()
  const second = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  expect(second).not.toBe(first)
  made.push(second)

  const [otherData, squatted, elsewhere] = [folder(), folder(), folder()]
  mkdirSync(join(elsewhere, 'theirs'), { mode: 0o700 })
  symlinkSync(join(elsewhere, 'theirs'), join(squatted, 'orangery'))
  const third = await ensureRuntimeDir(otherData, { XDG_RUNTIME_DIR: squatted })
  expect(third.startsWith(squatted)).toBe(false)
  made.push(third)
})
