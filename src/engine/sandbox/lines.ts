import type { Readable } from 'node:stream'

const longestLine = 65_536

/** Calls back for each whole line of a stream; of one without end only so much is kept. */
export function onLines(stream: Readable, callback: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = (lines.pop() ?? '').slice(0, longestLine)
    lines.forEach(callback)
  })
  // The other side may vanish at any time; that it ended is told by the process, not by its pipes.
  stream.on('error', () => {})
}

/** Keeps the last of what a stream said, for the one error message it may be needed in. */
export function keepTail(stream: Readable, limit = 8192): () => string {
  let tail = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    tail = (tail + chunk).slice(-limit)
  })
  stream.on('error', () => {})
  return () => tail.trim()
}
