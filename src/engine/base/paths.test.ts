import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { defaultDataDir } from './paths.ts'

let base = ''
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'orangery-paths-')))
  mkdirSync(join(base, 'real'))
  symlinkSync('real', join(base, 'link'))
})
afterEach(() => rmSync(base, { recursive: true }))

test('the data folder is named by its real, whole path, whichever way it was given', () => {
  const ways = ['real/data', 'link/data', 'link/../link/data']
  for (const way of ways.map((each) => join(base, each))) {
    const real = join(base, 'real/data')
    expect(defaultDataDir({ ORANGERY_DATA_DIR: way })).toBe(real)
    expect(defaultDataDir({ ORANGERY_DATA_DIR: relative(process.cwd(), way) })).toBe(real)
  }
  expect(defaultDataDir({ XDG_DATA_HOME: join(base, 'link') })).toMatch(
    process.platform === 'darwin' ? /Orangery$/ : join(base, 'real/orangery'),
  )
})
