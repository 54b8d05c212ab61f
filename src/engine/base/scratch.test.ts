import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { makeScratch } from './scratch.ts'

afterEach(() => vi.unstubAllEnvs())

test('a scratch folder is made in TMPDIR, and elsewhere where that is not there', async () => {
  const own = await mkdtemp(join(tmpdir(), 'orangery-scratch-'))
  vi.stubEnv('TMPDIR', own)
  expect(dirname(await makeScratch('one-'))).toBe(own)
  await rm(own, { recursive: true })
  const made = await makeScratch('orangery-scratch-')
  expect(dirname(made)).not.toBe(own)
  await rm(made, { recursive: true })
})
