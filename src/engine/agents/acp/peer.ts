import { z } from 'zod'

const idSchema = z.union([z.string().max(256), z.number()])
export type RpcId = z.infer<typeof idSchema>

const requestSchema = z.looseObject({ id: idSchema, method: z.string(), params: z.unknown().optional() })
const notificationSchema = z.looseObject({ method: z.string(), params: z.unknown().optional() })
const answerSchema = z.looseObject({
  id: z.number(),
  result: z.unknown().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
})

export const rpcCodes = { request: -32600, method: -32601, params: -32602, internal: -32603 } as const

/** What the other side is told of a request that cannot be answered. */
export class RpcError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export type RpcSide = {
  readonly send: (line: string) => void
  readonly request: (method: string, params: unknown) => Promise<unknown>
  readonly notified: (method: string, params: unknown) => void
}

/** What was asked of us and not answered yet: more than this at once is nobody's conversation. */
const mostAtOnce = 20
const longestReason = 500

/** One end of a JSON-RPC conversation in lines. Everything that is received was written inside a sandbox. */
export class RpcPeer implements Disposable {
  readonly #side: RpcSide
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #answering = 0
  #lastId = 0
  #over: Error | null = null

  constructor(side: RpcSide) {
    this.#side = side
  }

  /** Fails with what the other side said, when it is over, or after `patienceMs`. */
  async call(method: string, params: unknown, patienceMs?: number): Promise<unknown> {
    if (this.#over !== null) throw this.#over
    const id = ++this.#lastId
    const answer = Promise.withResolvers<unknown>()
    this.#waiting.set(id, answer)
    this.#say({ id, method, params })
    const timer =
      patienceMs === undefined
        ? undefined
        : setTimeout(() => answer.reject(new Error(`${method}: no answer`)), patienceMs)
    try {
      return await answer.promise
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(id)
    }
  }

  receive(line: string): void {
    const start = line.indexOf('{')
    if (start === -1 || this.#over !== null) return
    let said: unknown
    try {
      said = JSON.parse(line.slice(start))
    } catch {
      // Programs print on the same stream; what is no message is no message.
      return
    }
    const request = requestSchema.safeParse(said)
    if (request.success) return void this.#answer(request.data)
    const notification = notificationSchema.safeParse(said)
    if (notification.success) return this.#side.notified(notification.data.method, notification.data.params)
    const answer = answerSchema.safeParse(said)
    if (!answer.success) return
    const waiting = this.#waiting.get(answer.data.id)
    const { error, result } = answer.data
    if (error === undefined) waiting?.resolve(result)
    else waiting?.reject(new Error(error.message.slice(0, longestReason)))
  }

  /** Nobody is there any more: who waits for an answer is told why it will not come. */
  end(why: string): void {
    this.#over ??= new Error(why)
    for (const waiting of this.#waiting.values()) waiting.reject(this.#over)
  }

  [Symbol.dispose](): void {
    this.end('it is over')
  }

  async #answer({ id, method, params }: z.infer<typeof requestSchema>): Promise<void> {
    if (this.#answering >= mostAtOnce)
      return this.#fail(id, new RpcError(rpcCodes.request, 'too many requests at once'))
    this.#answering++
    try {
      this.#say({ id, result: await this.#side.request(method, params) })
    } catch (error) {
      this.#fail(id, error)
    } finally {
      this.#answering--
    }
  }

  #fail(id: RpcId, error: unknown): void {
    const code = error instanceof RpcError ? error.code : rpcCodes.internal
    const message = error instanceof Error ? error.message : String(error)
    this.#say({ id, error: { code, message } })
  }

  #say(message: object): void {
    if (this.#over === null) this.#side.send(JSON.stringify({ jsonrpc: '2.0', ...message }))
  }
}
