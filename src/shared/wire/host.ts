import { api, type Caller, type Handlers, type Name } from '../api.ts'
import { OrangeryError, reportError } from '../errors.ts'
import { clientMessageSchema, streamWindow, type Channel, type HostMessage } from './messages.ts'

type AnyHandler = (input: unknown, ...rest: unknown[]) => unknown

/** How long items of a stream are gathered into one message. */
const batchMs = 10
const batchItems = 500
/** Pieces of a large file would otherwise be gathered by the hundred. */
const batchLength = 1024 * 1024

type OpenStream = { readonly abort: AbortController; acknowledged: number; wake: () => void }

function unknownName(name: string): OrangeryError {
  return new OrangeryError('wire.unknown_name', `${name}: there is no such procedure or stream`, {
    kind: 'usage',
    hint: 'The other side may be of a newer version: restart Orangery.',
  })
}

function parseInput(name: Name, input: unknown): unknown {
  const parsed = api[name].input.safeParse(input ?? {})
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue?.path.join('.') ?? ''
  const why =
    issue?.code === 'too_small' && issue.origin === 'string' ? 'is empty' : (issue?.message ?? 'bad')
  throw new OrangeryError('wire.bad_input', `${name}: ${where === '' ? 'input' : where}: ${why}`, {
    kind: 'input',
    hint: 'Give it another value. Where nobody gave this one, the other side may be of another version: restart Orangery.',
    details: parsed.error.issues,
  })
}

/** Answers a client on a channel with the engine's handlers until the channel closes. */
export function serveChannel(
  handlers: Handlers,
  channel: Channel,
  caller: Caller,
  onUnexpected: (error: unknown) => void = () => {},
): void {
  const streams = new Map<number, OpenStream>()
  const calls = new Map<number, AbortController>()
  let open = true

  const send = (message: HostMessage) => {
    if (open) channel.send(JSON.stringify(message))
  }
  const sendError = (id: number, error: unknown) => {
    if (!(error instanceof OrangeryError)) onUnexpected(error)
    send({ id, error: reportError(error) })
  }

  async function answer(id: number, name: string, input: unknown) {
    const abort = new AbortController()
    calls.set(id, abort)
    try {
      if (!Object.hasOwn(api, name) || api[name as Name].kind !== 'procedure') throw unknownName(name)
      const handler = handlers[name as Name] as AnyHandler
      send({ id, ok: await handler(parseInput(name as Name, input), { ...caller, signal: abort.signal }) })
    } catch (error) {
      sendError(id, error)
    } finally {
      calls.delete(id)
    }
  }

  async function pump(id: number, name: string, input: unknown) {
    const stream: OpenStream = { abort: new AbortController(), acknowledged: 0, wake: () => {} }
    streams.set(id, stream)
    let seq = 0
    let batch: string[] = []
    let length = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    const flush = () => {
      clearTimeout(timer)
      timer = undefined
      if (batch.length === 0) return
      seq += 1
      if (open) channel.send(`{"id":${id},"seq":${seq},"items":[${batch.join(',')}]}`)
      batch = []
      length = 0
    }
    try {
      if (!Object.hasOwn(api, name) || api[name as Name].kind !== 'stream') throw unknownName(name)
      const handler = handlers[name as Name] as AnyHandler
      const items = handler(parseInput(name as Name, input), stream.abort.signal, caller)
      for await (const item of items as AsyncIterable<unknown>) {
        const text = JSON.stringify(item)
        batch.push(text)
        length += text.length
        timer ??= setTimeout(flush, batchMs)
        if (batch.length >= batchItems || length >= batchLength) flush()
        while (seq - stream.acknowledged >= streamWindow && !stream.abort.signal.aborted) {
          await new Promise<void>((resolve) => {
            stream.wake = resolve
          })
        }
        if (stream.abort.signal.aborted) break
      }
      flush()
      send({ id, end: true })
    } catch (error) {
      clearTimeout(timer)
      if (!stream.abort.signal.aborted) {
        flush()
        sendError(id, error)
      }
    } finally {
      clearTimeout(timer)
      streams.delete(id)
    }
  }

  channel.onMessage((text) => {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      return channel.close()
    }
    const parsed = clientMessageSchema.safeParse(value)
    if (!parsed.success) return channel.close()
    const message = parsed.data
    const stream = streams.get(message.id)
    if ('call' in message) void answer(message.id, message.call, message.input)
    else if ('open' in message) {
      // A reused id would let one stream answer for another.
      if (stream === undefined) void pump(message.id, message.open, message.input)
      else channel.close()
    } else if ('ack' in message && stream) {
      stream.acknowledged = Math.max(stream.acknowledged, message.ack)
      stream.wake()
    } else if ('cancel' in message && stream) {
      stream.abort.abort()
      stream.wake()
    } else if ('cancel' in message) calls.get(message.id)?.abort()
  })
  channel.onClose(() => {
    open = false
    for (const stream of streams.values()) {
      stream.abort.abort()
      stream.wake()
    }
  })
}
