import type { Socket as DatagramSocket } from 'node:dgram'
import type { Socket } from 'node:net'
import { namePort } from '../../base/sandbox.ts'
import type { Lookups } from './lookups.ts'
import { readUntil, type Read } from '../line/reading.ts'

/** Questions that wait for an answer at one time; the kernel drops what comes too fast anyway. */
const mostPending = 1024

/** Answers questions that come as datagrams. */
export function serveDatagrams(socket: DatagramSocket, lookups: Lookups): void {
  let pending = 0
  // What one answer met is no reason to stop giving answers; whoever holds the socket closes it.
  socket.on('error', () => {})
  socket.on('message', (message, from) => {
    if (pending >= mostPending) return
    pending++
    void answerDatagram(socket, lookups, message, from).finally(() => pending--)
  })
}

export async function answerDatagram(
  socket: DatagramSocket,
  lookups: Lookups,
  message: Buffer,
  { address, port }: { readonly address: string; readonly port: number },
): Promise<void> {
  const peer = { protocol: 'udp', port, toPort: namePort } as const
  const answer = await lookups.answer(message, peer).catch(() => null)
  if (answer !== null) sendAnswer(socket, answer, port, address)
}

/**
 * Whoever asked may be gone, and so may we: a sandbox ends with questions under way, and a socket that is closed by
 * then does not call back but throws, which would take its supervisor along. (escape: lookup-at-the-end)
 */
export function sendAnswer(socket: DatagramSocket, answer: Buffer, port: number, address: string): void {
  try {
    socket.send(answer, port, address, () => {})
  } catch {
    // There is nobody left to answer.
  }
}

/** Answers questions that come over a connection, one after the other. */
export async function serveQuestions(client: Socket, lookups: Lookups, timeoutMs: number): Promise<void> {
  for (;;) {
    const message = await readUntil(client, readFramed, timeoutMs)
    const answer = message === null ? null : await lookups.answer(message, client)
    if (answer === null) return void client.destroy()
    client.write(framed(answer))
  }
}

/** A message behind its length. */
export function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(message.length)
  return Buffer.concat([length, message])
}

export function readFramed(bytes: Buffer): Read<Buffer> | null {
  if (bytes.length < 2) return null
  const end = 2 + bytes.readUInt16BE(0)
  return bytes.length < end ? null : { value: bytes.subarray(2, end), used: end }
}
