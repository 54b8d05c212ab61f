import type { Socket } from 'node:net'

/** What a parser made of the first bytes; what it did not use is put back. */
export type Read<T> = { readonly value: T; readonly used: number }

/**
 * Reads from a socket until the parser is content, and leaves the socket paused with the rest in it. Null when
 * the other side ended, or took longer than it may.
 */
export function readUntil<T>(
  socket: Socket,
  parse: (bytes: Buffer) => Read<T> | null,
  timeoutMs: number,
): Promise<T | null> {
  return new Promise((resolve) => {
    let bytes: Buffer = Buffer.alloc(0)
    const finish = (read: Read<T> | null) => {
      clearTimeout(timer)
      socket.off('data', onData).off('end', onEnd).off('close', onEnd)
      socket.pause()
      if (read !== null && read.used < bytes.length) socket.unshift(bytes.subarray(read.used))
      resolve(read === null ? null : read.value)
    }
    const onEnd = () => finish(null)
    const onData = (chunk: Buffer) => {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk])
      const read = parse(bytes)
      if (read !== null) finish(read)
    }
    const timer = setTimeout(onEnd, timeoutMs)
    socket.on('data', onData).on('end', onEnd).on('close', onEnd)
    // An end that came while nobody listened is not told again.
    if (socket.readableEnded || socket.destroyed) onEnd()
    else socket.resume()
  })
}
