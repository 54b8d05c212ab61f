import type { ReadStream } from 'node:tty'
import type { Client } from '../../shared/api.ts'
import { isTerminal, type DispatchDetail } from '../../shared/dispatch.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { enterRawMode } from '../../engine/base/rawTerminal.ts'

/** Ctrl-], as telnet has it: every other key is the agent's. */
const detachKey = 0x1d

/** Hands keys over one after the other: two calls on their way at once could change places. */
function inOrder(onFailure: (error: unknown) => void) {
  let last: Promise<unknown> = Promise.resolve()
  return (act: () => Promise<unknown>) => {
    last = last.then(act).catch(onFailure)
  }
}

/**
 * Connects this terminal with the one of a running dispatch until the dispatch ends or the person leaves.
 * Gives back the dispatch as it then is.
 */
export async function attach(client: Client, reference: string): Promise<DispatchDetail> {
  const { id, status } = await client.call('dispatch.get', { id: reference })
  if (isTerminal(status)) {
    throw new OrangeryError('dispatch.not_running', `${id}: it has ended (${status})`, {
      kind: 'busy',
      hint: `See what it printed in the window, or what it changed with: orangery changeset show ${id}`,
    })
  }
  const leave = new AbortController()
  let failure: unknown
  const tell = inOrder((error) => {
    failure ??= error
    leave.abort()
  })
  const stdin = process.stdin as ReadStream
  const onData = (chunk: Buffer) => {
    const at = stdin.isTTY ? chunk.indexOf(detachKey) : -1
    const data = (at === -1 ? chunk : chunk.subarray(0, at)).toString()
    if (data !== '') tell(() => client.call('dispatch.input', { id, data }))
    if (at !== -1) leave.abort()
  }
  const onResize = () => {
    const { columns, rows } = process.stdout
    // One that nobody gave a size (a serial line, `script` in a pipe) says 0.
    if (columns > 0 && rows > 0) tell(() => client.call('dispatch.resize', { id, columns, rows }))
  }
  using _raw = await enterRawMode(stdin)
  stdin.on('data', onData)
  if (process.stdout.isTTY) {
    process.stdout.on('resize', onResize)
    onResize()
    process.stderr.write(`orangery: on the terminal of ${id}; Ctrl-] leaves it running\r\n`)
  }
  try {
    for await (const { data } of client.open('dispatch.output', { id, follow: true }, leave.signal)) {
      process.stdout.write(Buffer.from(data, 'base64'))
    }
  } finally {
    stdin.off('data', onData)
    stdin.pause()
    process.stdout.off('resize', onResize)
  }
  const detail = await client.call('dispatch.get', { id })
  // Keys typed while it ended reached nobody, which is no failure of ours.
  if (failure !== undefined && !isTerminal(detail.status)) throw failure
  return detail
}
