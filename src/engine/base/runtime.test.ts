import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { ensureRuntimeDir, knownRuntimeDir, leaveRuntimeDir } from './runtime.ts'

const made: string[] = []
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'orangery-runtime-'))
  made.push(path)
  return path
}
/** So deep that no socket in it could be reached by its path. */
function deepFolder(): string {
  const path = join(folder(), 'd'.repeat(100))
  mkdirSync(path)
  return path
}
afterEach(() => {
  for (const path of made.splice(0)) rmSync(path, { recursive: true, force: true })
})

test('sockets live below the data folder, where only we can enter', async () => {
  const dataDir = folder()
  expect(await knownRuntimeDir(dataDir)).toBeNull()
  const runtime = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: folder() })
  expect(dirname(runtime)).toBe(dataDir)
  expect(statSync(runtime).mode & 0o777).toBe(0o700)
  expect(await knownRuntimeDir(dataDir)).toBe(runtime)
  await leaveRuntimeDir(dataDir, runtime)
  expect(existsSync(runtime)).toBe(true)
})

test('a folder below the data folder that others may enter is refused', async () => {
  const dataDir = folder()
  mkdirSync(join(dataDir, 'run'))
  chmodSync(join(dataDir, 'run'), 0o755)
  expect(await knownRuntimeDir(dataDir)).toBeNull()
  await expect(ensureRuntimeDir(dataDir, {})).rejects.toMatchObject({ code: 'runtime.not_ours' })
})

test('for a deep data folder a shell with another environment finds the same folder', async () => {
  const [dataDir, session] = [deepFolder(), folder()]
  expect(await knownRuntimeDir(dataDir)).toBeNull()
  const first = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  expect(dirname(dirname(first))).toBe(session)
  expect(statSync(first).mode & 0o777).toBe(0o700)
  expect(await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: folder() })).toBe(first)
  expect(await knownRuntimeDir(dataDir)).toBe(first)
})

test('a folder that is gone after a restart is made again', async () => {
  const [dataDir, session] = [deepFolder(), folder()]
  const first = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  rmSync(dirname(first), { recursive: true })
  expect(await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })).toBe(first)
})

test('a folder elsewhere goes with the last who used it', async () => {
  const [dataDir, session] = [deepFolder(), folder()]
  const runtime = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  writeFileSync(join(runtime, 'used'), '')
  await leaveRuntimeDir(dataDir, runtime)
  expect(existsSync(runtime)).toBe(true)
  rmSync(join(runtime, 'used'))
  await leaveRuntimeDir(dataDir, runtime)
  expect(existsSync(join(session, 'orangery'))).toBe(false)
  expect(await ensureRuntimeDir(dataDir, {})).toBe(runtime)
})

test('a folder that others may enter, or a link to one, is not taken', async () => {
  const [dataDir, session] = [deepFolder(), folder()]
  const first = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  chmodSync(first, 0o755)
  expect(await knownRuntimeDir(dataDir)).toBeNull()
  const second = await ensureRuntimeDir(dataDir, { XDG_RUNTIME_DIR: session })
  expect(second).not.toBe(first)
  made.push(second)

  const [otherData, squatted, elsewhere] = [deepFolder(), folder(), folder()]
  mkdirSync(join(elsewhere, 'theirs'), { mode: 0o700 })
  symlinkSync(join(elsewhere, 'theirs'), join(squatted, 'orangery'))
  const third = await ensureRuntimeDir(otherData, { XDG_RUNTIME_DIR: squatted })
  expect(third.startsWith(squatted)).toBe(false)
  made.push(third)
})
