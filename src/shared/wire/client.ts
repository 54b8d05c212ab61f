import type { Client, Input, Output, ProcedureName, StreamName } from '../api.ts'
import { errorFromReport, OrangeryError } from '../errors.ts'
import { hostMessageSchema, type Channel, type ClientMessage, type HostMessage } from './messages.ts'

type Pending = { receive(message: HostMessage): void; fail(error: Error): void }

const lost = () =>
  new OrangeryError('wire.lost', 'connection to Orangery: it was closed', {
    hint: 'Start it again, or repeat the command.',
  })

const takenBack = (name: string) =>
  new OrangeryError('wire.taken_back', `${name}: it was taken back before it began`, { kind: 'busy' })

/** The contract over any channel. */
export function connectClient(channel: Channel): Client {
  const pending = new Map<number, Pending>()
  let nextId = 1
  let closed = false

  const send = (message: ClientMessage) => channel.send(JSON.stringify(message))

  channel.onMessage((text) => {
    const parsed = hostMessageSchema.safeParse(JSON.parse(text))
    if (parsed.success) pending.get(parsed.data.id)?.receive(parsed.data)
  })
  channel.onClose(() => {
    closed = true
    for (const entry of pending.values()) entry.fail(lost())
    pending.clear()
  })

  function call<K extends ProcedureName>(name: K, input: Input<K>, signal?: AbortSignal): Promise<Output<K>> {
    return new Promise((resolve, reject) => {
      if (closed) return reject(lost())
      if (signal?.aborted) return reject(takenBack(name))
      const id = nextId++
      const onAbort = () => send({ id, cancel: true })
      const settle = (act: () => void) => {
        pending.delete(id)
        signal?.removeEventListener('abort', onAbort)
        act()
      }
      pending.set(id, {
        receive(message) {
          if ('ok' in message) settle(() => resolve(message.ok as Output<K>))
          else if ('error' in message) settle(() => reject(errorFromReport(message.error)))
        },
        fail: (error) => settle(() => reject(error)),
      })
      send({ id, call: name, input })
      signal?.addEventListener('abort', onAbort)
    })
  }

  async function* open<K extends StreamName>(
    name: K,
    input: Input<K>,
    signal?: AbortSignal,
  ): AsyncGenerator<Output<K>> {
    if (closed) throw lost()
    if (signal?.aborted) return
    const id = nextId++
    const batches: { seq: number; items: unknown[] }[] = []
    let ended = false
    let failure: Error | undefined
    let wake: () => void = () => {}
    pending.set(id, {
      receive(message) {
        if ('items' in message) batches.push(message)
        else if ('error' in message) failure = errorFromReport(message.error)
        else if ('end' in message) ended = true
        wake()
      },
      fail(error) {
        failure = error
        wake()
      },
    })
    const onAbort = () => {
      ended = true
      wake()
    }
    signal?.addEventListener('abort', onAbort)
    send({ id, open: name, input })
    try {
      while (true) {
        const batch = batches.shift()
        if (batch !== undefined) {
          yield* batch.items as Output<K>[]
          if (!closed) send({ id, ack: batch.seq })
        } else if (failure !== undefined) throw failure
        else if (ended) return
        else
          await new Promise<void>((resolve) => {
            wake = resolve
          })
      }
    } finally {
      signal?.removeEventListener('abort', onAbort)
      pending.delete(id)
      if (!closed && failure === undefined) send({ id, cancel: true })
    }
  }

  return { call, open, close: () => channel.close() }
}
