import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { askSupervisor, listenForControl, type ControlRequest } from './control.ts'
import { connectTo, listenOn } from './lineSocket.ts'

let dir: string
let server: Server | undefined
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'orangery-socket-'))
})
afterEach(async () => {
  server?.close()
  server = undefined
  await rm(dir, { recursive: true })
})

test('a socket is reachable by its owner alone', async () => {
  const path = join(dir, 'run', 'x.sock')
  server = await listenOn(path, () => {})
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect((await stat(join(dir, 'run'))).mode & 0o777).toBe(0o700)
})

test('a message is delivered whole whatever pieces it arrives in', async () => {
  const path = join(dir, 'x.sock')
  const text = JSON.stringify({ long: 'ü'.repeat(300_000) })
  const received = new Promise<string>((resolve) => {
    void listenOn(path, (channel) => channel.onMessage(resolve)).then(async (listening) => {
      server = listening
      const channel = await connectTo(path)
      channel?.send(text)
    })
  })
  expect(await received).toBe(text)
})

test('a socket left behind by a dead process is replaced, a living one is not', async () => {
  const path = join(dir, 'x.sock')
  await writeFile(path, '')
  server = await listenOn(path, () => {})
  await expect(listenOn(path, () => {})).rejects.toMatchObject({ code: 'socket.in_use', kind: 'busy' })
})

test('a supervisor answers a request or says why not, and nobody there is no error', async () => {
  const path = join(dir, 'x.sock')
  const ask = (request: ControlRequest) => askSupervisor(path, request, 10_000)
  expect(await ask({ op: 'kill', by: 'test' })).toBe('absent')
  const seen: string[] = []
  using _control = await listenForControl(path, (request) => {
    seen.push(request.op)
    if (request.op === 'input') throw new Error('no')
  })
  expect(await ask({ op: 'kill', by: 'test' })).toBe('done')
  await expect(ask({ op: 'input', data: '' })).rejects.toThrow()
  await expect(ask({ op: 'nonsense' } as never)).rejects.toThrow()
  expect(seen).toEqual(['kill', 'input'])
})

test('a supervisor that takes a request and does not answer is not waited for without end', async () => {
  const path = join(dir, 'x.sock')
  server = await listenOn(path, () => {})
  expect(await askSupervisor(path, { op: 'input', data: '' }, 20)).toBe('silent')
})
