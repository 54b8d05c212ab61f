import { expect, test } from 'vitest'
import { checkOpenFiles } from './openFiles.ts'

const outputs = (hosts: number) => ({
  mode: 'restricted' as const,
  allow: Array.from({ length: hosts }, (_, n) => `h${n}.example`),
  deny: [],
  pins: {},
})

test('more hosts than the limit of open files has room for are refused before anything starts, and others are not', async () => {
  const few = async () => 1024
  expect(await checkOpenFiles(outputs(300), few)).toMatchObject([
    {
      ok: false,
      detail: expect.stringContaining('300 allowed hosts'),
      fix: expect.stringContaining('ulimit -Hn'),
    },
  ])
  expect(await checkOpenFiles(outputs(300), async () => 4096)).toEqual([])
  expect(await checkOpenFiles(outputs(10), few)).toEqual([])
  expect(await checkOpenFiles(outputs(10_000), async () => null)).toEqual([])
})
