import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { markers } from '../../base/markers.ts'
import { gitText, Ground } from '../fixture.ts'
import { hideMarkers } from './marker.ts'

test('what the user has in info/exclude stays byte for byte, also where it is no UTF-8, and hides what it hid', async () => {
  await using ground = await Ground.make()
  const repo = await ground.repo('repo')
  const path = join(repo, '.git/info/exclude')
  const own = Buffer.from('# M\xfcll\r\ncaf\xe9.txt', 'latin1')
  await writeFile(path, own)
  await writeFile(Buffer.concat([Buffer.from(`${repo}/`), Buffer.from('caf\xe9.txt', 'latin1')]), 'secret')
  expect(await gitText(repo, 'status', '--porcelain')).toBe('')
  await hideMarkers(join(repo, '.git'))
  expect(await gitText(repo, 'status', '--porcelain')).toBe('')
  const lines = `\n${markers.map((marker) => `/${marker}\n`).join('')}`
  expect(await readFile(path)).toEqual(Buffer.concat([own, Buffer.from(lines)]))
})
