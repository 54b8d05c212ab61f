import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { ensurePrivateDir } from '../../base/files.ts'
import type { Channel } from '../../../shared/wire/index.ts'

/** Nobody sends more than this in one message; whoever does is cut off. */
const longestLine = 64 * 1024 * 1024

/** A socket that carries one JSON text a line, as a channel. */
export function socketChannel(socket: Socket): Channel {
  let onMessage: (text: string) => void = () => {}
  let rest: Buffer[] = []
  let restLength = 0
  socket.on('data', (chunk: Buffer) => {
    let start = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const text = Buffer.concat([...rest, chunk.subarray(start, end)]).toString()
      rest = []
      restLength = 0
      start = end + 1
      onMessage(text)
    }
    if (start < chunk.length) {
      rest.push(chunk.subarray(start))
      restLength += chunk.length - start
      if (restLength > longestLine) socket.destroy()
    }
  })
  socket.on('error', () => socket.destroy())
  return {
    send: (text) => {
      if (!socket.destroyed) socket.write(`${text}\n`)
    },
    onMessage: (listener) => {
      onMessage = listener
    },
    onClose: (listener) => {
      socket.on('close', listener)
    },
    close: () => socket.destroy(),
  }
}

/**
 * Listens on a unix socket that only this user can reach: the folder is 0700, the socket 0600. A socket left
 * by a dead process is replaced; one that answers is not.
 */
export async function listenOn(path: string, onConnection: (channel: Channel) => void): Promise<Server> {
  await ensurePrivateDir(dirname(path))
  const isThere = existsSync(path)
  if (isThere && (await answers(path))) {
    throw new OrangeryError('socket.in_use', `${path}: another Orangery answers there`, {
      kind: 'busy',
      hint: 'Use the one that runs, or stop it first.',
    })
  }
  if (isThere) await rm(path, { force: true })
  const server = createServer((socket) => onConnection(socketChannel(socket)))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    // Binding happens within the call, so the mask holds for nothing else.
    const before = process.umask(0o177)
    server.listen(path, resolve)
    process.umask(before)
  })
  return server
}

/** Connects, or null where nobody listens. */
export function connectTo(path: string): Promise<Channel | null> {
  return new Promise((resolve) => {
    const socket = createConnection(path)
    socket.once('connect', () => resolve(socketChannel(socket)))
    socket.once('error', () => resolve(null))
  })
}

async function answers(path: string): Promise<boolean> {
  const channel = await connectTo(path)
  channel?.close()
  return channel !== null
}
