import { mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { run } from '../base/process.ts'
import { openDoor, type Answered, type Asked, type Shown } from './index.ts'
import { readWish } from './wish.ts'

let scope: AsyncDisposableStack
let folder: string
beforeEach(async () => {
  scope = new AsyncDisposableStack()
  const base = await realpath(await mkdtemp(join(tmpdir(), 'orangery-door-')))
  scope.defer(() => rm(base, { recursive: true, force: true }))
  folder = join(base, 'door')
})
afterEach(() => scope.disposeAsync())

const opened = async () => {
  const door = scope.use(await openDoor(folder, { version: '1.2.3', shownAt: folder }))
  await door.furnish()
  return door
}
const shown: Shown = {
  level: 'readonly',
  files: 'read-only',
  hosts: [],
  network: { mode: 'none', allowed: [], denied: [] },
  refused: [],
  requests: [],
}
const hears = (ask: (asked: Asked) => Promise<Answered>) => ({ ask, show: () => shown })
const ask = (...args: string[]) => run('sh', [join(folder, 'bin', 'orangery-ask'), ...args])
const shell = (script: string) =>
  run('sh', ['-c', script], { env: { PATH: `${folder}/commands:/usr/bin:/bin`, DOOR: folder } })

test('a question reaches the listener as it was asked, and the answer ends the asker', async () => {
  const door = await opened()
  const heard: Asked[] = []
  const answers: Answered[] = [
    { status: 'approved', message: 'go on' },
    { status: 'denied', message: 'use "the" mirror' },
    { status: 'open', message: 'later' },
  ]
  door.listen(
    hears(async (asked) => {
      heard.push(asked)
      return answers[heard.length - 1]!
    }),
  )
  const reason = `it's "needed" \\ here, ü\nand\tthere`
  const first = await ask('network', '--host', 'a.test:443', '--host', 'b.test', '--reason', reason)
  expect(first).toMatchObject({ code: 0, stdout: Buffer.from('approved: go on\n') })
  expect(heard).toEqual([
    {
      to: 'network',
      hosts: ['a.test:443', 'b.test'],
      reason: `it's "needed" \\ here, ü and there`,
      waitMs: 0,
    },
  ])
  const second = await ask('full')
  expect(second).toMatchObject({ code: 77, stdout: Buffer.from('denied: use "the" mirror\n') })
  expect(await ask('full', '--wait', '7')).toMatchObject({ code: 75 })
  expect(heard[2]).toMatchObject({ waitMs: 7000 })
})

test('who asks what it has is shown it', async () => {
  const door = await opened()
  door.listen(hears(() => Promise.reject(new Error('nothing was asked'))))
  const { code, stdout } = await ask('show')
  expect({ code, shown: JSON.parse(stdout.toString()) as unknown }).toEqual({ code: 0, shown })
})

test('a listener that fails is an answer, and noise in the pipe none', async () => {
  const door = await opened()
  door.listen(hears(() => Promise.reject(new Error('too many at once'))))
  await shell('printf "rubbish" >"$DOOR/ask"; printf "{\\"token\\":\\"../../up\\"}\\n" >"$DOOR/ask"')
  expect(await ask('full')).toMatchObject({
    code: 65,
    stdout: Buffer.from('refused: too many at once\n'),
  })
  expect(await ask('sideways')).toMatchObject({ code: 65 })
  expect(await ask()).toMatchObject({ code: 64 })
  expect(await ask('full', '--wait', '1; true')).toMatchObject({ code: 64 })
  expect(await readdir(join(folder, 'answers'))).toHaveLength(2)
})

test('a flood of questions is not passed on', async () => {
  const door = await opened()
  let heard = 0
  door.listen(
    hears(async () => {
      heard++
      return { status: 'open', message: '' }
    }),
  )
  const line = (index: number) =>
    `{"token":"${String(index).padStart(8, '0')}","to":"full","hosts":[],"reason":"","wait_s":0}\n`
  await writeFile(join(folder, 'ask'), Array.from({ length: 500 }, (_, index) => line(index)).join(''))
  await shell('yes "$(head -c 2000 /dev/zero | tr "\\0" x)" | head -c 150000 >"$DOOR/ask"')
  expect(heard).toBe(30)
  // Who asks then is told so, and can look at what it has all the same.
  const refused = await ask('full', '--wait', '40')
  expect([refused.code, String(refused.stdout), String(refused.stderr)]).toEqual([
    75,
    'refused: too many questions: wait a minute\n',
    '',
  ])
  expect(await ask('mcp')).toMatchObject({ code: 75 })
  expect(await ask('show')).toMatchObject({ code: 0 })
  expect(heard).toBe(30)
})

test('who waits hears that a person is asked once one is, and not before', async () => {
  const door = await opened()
  const heardBy = join(folder, '../heard')
  const heard = () => readFile(heardBy, 'utf8').catch(() => '')
  let asksPerson = true
  door.listen({
    show: () => shown,
    ask: async (_, waiting) => {
      if (asksPerson) {
        waiting.began()
        await expect.poll(heard, { timeout: 20_000 }).toContain('a person is asked, for at most 40 seconds')
      }
      return { status: 'open', message: '' }
    },
  })
  const waits = () => shell(`sh "$DOOR/bin/orangery-ask" full --wait 40 2>'${heardBy}'`)
  expect(await waits()).toMatchObject({ code: 75, stdout: Buffer.from('open: \n') })
  asksPerson = false
  expect(await waits()).toMatchObject({ code: 75 })
  expect(await heard()).toBe('')
})

test.each([
  ['a token that leads elsewhere', { token: '../../escape' }, 'noise'],
  ['no object', 7, 'noise'],
  ['a level that is none', { token: 'abcdefgh', to: 'root' }, 'unclear'],
  ['too many hosts', { token: 'abcdefgh', to: 'full', hosts: Array(21).fill('a.test') }, 'unclear'],
])('%s is not taken for a wish', (_, said, kind) => {
  expect(readWish(JSON.stringify(said)).kind).toBe(kind)
})

test('a reason cannot redraw the terminal of who reads it', () => {
  const said = { token: 'abcdefgh', to: 'full', hosts: [], reason: 'a\u001b[2Jb\u202ec\n', wait_s: 0 }
  expect(readWish(JSON.stringify(said))).toMatchObject({ kind: 'wish', wish: { reason: 'a [2Jb c' } })
})

// A repository's own config may deny what it likes, and must not keep the rest from being refused with it.
const noPrograms = ['x'.repeat(256), 'nul\0l']

test('a call that the boundary denies is refused by name, until it does no longer; others go through', async () => {
  const door = await opened()
  await door.deny(['seq 3', 'wc'], ['seq 3', '/usr/bin/env', '../up', ...noPrograms, 'factor'])
  expect((await readdir(join(folder, 'commands'))).sort()).toEqual(['factor', 'seq', 'wc'])
  expect(await shell('factor 6')).toMatchObject({ code: 0 })
  expect(await shell('seq 3 4')).toMatchObject({ code: 126, stdout: Buffer.from('') })
  expect(await shell('seq 4 5')).toMatchObject({ code: 0, stdout: Buffer.from('4\n5\n') })
  expect((await shell('wc -c </dev/null')).stderr.toString()).toContain('wc: not allowed at this boundary')
  // What a config denies that was changed since.
  await door.deny(['factor', 'tac'])
  expect(await shell('factor 6')).toMatchObject({ code: 126, stdout: Buffer.from('') })
  expect(await shell('tac </dev/null')).toMatchObject({ code: 126 })
  await door.deny([])
  expect(await shell('seq 3 4; printf x | wc -c')).toMatchObject({
    code: 0,
    stdout: Buffer.from('3\n4\n1\n'),
  })
})

test('closing leaves nothing behind', async () => {
  const door = await opened()
  door.listen(hears(async () => ({ status: 'open', message: '' })))
  await door[Symbol.asyncDispose]()
  await expect(readdir(folder)).rejects.toMatchObject({ code: 'ENOENT' })
})
