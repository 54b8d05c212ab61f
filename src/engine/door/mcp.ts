import { z } from 'zod'
import type { Listener } from './asking.ts'
import { callTool, toolList } from './tools.ts'

/** Newest first. What a client offers beyond them is answered by the newest; it decides whether to stay. */
const protocolVersions = ['2025-11-25', '2025-06-18', '2024-11-05'] as const
const progressEveryMs = 5_000
const mostAtOnce = 20

const idSchema = z.union([z.string().max(256), z.number()])
const requestSchema = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: idSchema,
  method: z.string(),
  params: z.looseObject({}).optional(),
})
const notificationSchema = requestSchema.omit({ id: true })
const initializeSchema = z.looseObject({ protocolVersion: z.string() })
const callSchema = z.looseObject({
  name: z.string(),
  arguments: z.looseObject({}).default({}),
  _meta: z.looseObject({ progressToken: idSchema.optional() }).optional(),
})
const cancelSchema = z.looseObject({ requestId: idSchema })

type Id = z.infer<typeof idSchema>
const codes = { parse: -32700, request: -32600, method: -32601, params: -32602, internal: -32603 } as const

const isObject = (said: unknown): said is Record<string, unknown> =>
  typeof said === 'object' && said !== null && !Array.isArray(said)

class CallError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** The Model Context Protocol as a server speaks it over stdio, for one client. What it says comes from inside. */
export class McpServer implements Disposable {
  readonly #listener: Listener
  readonly #send: (line: string) => void
  readonly #version: string
  readonly #calls = new Map<Id, AbortController>()
  #isInitialized = false

  constructor(listener: Listener, version: string, send: (line: string) => void) {
    this.#listener = listener
    this.#version = version
    this.#send = send
  }

  receive(line: string): void {
    if (line.trim() === '') return
    let said: unknown
    try {
      said = JSON.parse(line)
    } catch {
      return this.#fail(null, codes.parse, 'not JSON')
    }
    const request = requestSchema.safeParse(said)
    if (request.success) return this.#answer(request.data)
    const fields = isObject(said) ? said : {}
    const notification = 'id' in fields ? undefined : notificationSchema.safeParse(said).data
    if (notification !== undefined) return this.#hear(notification)
    // An answer: we ask nothing of a client, so it is to somebody else.
    if ('result' in fields || 'error' in fields) return
    const id = idSchema.safeParse(fields['id'])
    this.#fail(id.success ? id.data : null, codes.request, 'not a JSON-RPC 2.0 request')
  }

  /** A line that was longer than one may be. */
  refuseLong(): void {
    this.#fail(null, codes.request, 'the message is too long')
  }

  [Symbol.dispose](): void {
    for (const call of this.#calls.values()) call.abort()
    this.#calls.clear()
  }

  #hear({ method, params }: z.infer<typeof notificationSchema>): void {
    if (method !== 'notifications/cancelled') return
    const cancelled = cancelSchema.safeParse(params)
    if (!cancelled.success) return
    this.#calls.get(cancelled.data.requestId)?.abort()
  }

  #answer({ id, method, params }: z.infer<typeof requestSchema>): void {
    if (method === 'tools/call' && this.#isInitialized) return void this.#call(id, params)
    try {
      this.#say({ id, result: this.#resultOf(method, params) })
    } catch (error) {
      this.#failWith(id, error)
    }
  }

  #resultOf(method: string, params: unknown): unknown {
    if (method === 'ping') return {}
    if (method === 'initialize') return this.#initialize(params)
    if (!this.#isInitialized) throw new CallError(codes.request, 'initialize first')
    if (method === 'tools/list') return { tools: toolList }
    throw new CallError(codes.method, `${method}: there is no such method`)
  }

  async #call(id: Id, params: unknown): Promise<void> {
    if (this.#calls.has(id))
      return this.#fail(id, codes.request, 'a request with this id is not answered yet')
    if (this.#calls.size >= mostAtOnce) return this.#fail(id, codes.request, 'too many requests at once')
    const cancelled = new AbortController()
    const { signal } = cancelled
    this.#calls.set(id, cancelled)
    try {
      const call = callSchema.safeParse(params)
      if (!call.success) throw new CallError(codes.params, z.prettifyError(call.error))
      const { name, arguments: input, _meta: meta } = call.data
      using progress = this.#progress(meta?.progressToken)
      const result = await callTool(name, input, this.#listener, { signal, began: progress.begin })
      if (result === null) throw new CallError(codes.params, `${name}: there is no such tool`)
      if (!signal.aborted) this.#say({ id, result })
    } catch (error) {
      this.#failWith(id, error)
    } finally {
      this.#calls.delete(id)
    }
  }

  #initialize(params: unknown) {
    const wish = initializeSchema.safeParse(params)
    if (!wish.success) throw new CallError(codes.params, z.prettifyError(wish.error))
    this.#isInitialized = true
    return {
      protocolVersion:
        protocolVersions.find((version) => version === wish.data.protocolVersion) ?? protocolVersions[0],
      capabilities: { tools: {} },
      serverInfo: { name: 'orangery', title: 'Orangery', version: this.#version },
      instructions:
        'You run in a sandbox. Where it keeps you from what your task needs, ask for a wider boundary with request_boundary.',
    }
  }

  /** Tells who waits that a person is asked, at once and again, so that a client's patience does not end. */
  #progress(token: Id | undefined) {
    let timer: NodeJS.Timeout | undefined
    let progress = 0
    const tell = () => {
      progress++
      const message = 'a person was asked and has not answered yet'
      this.#say({
        method: 'notifications/progress',
        params: { progressToken: token, progress, message },
      })
    }
    return {
      begin: () => {
        if (token === undefined || timer !== undefined) return
        tell()
        timer = setInterval(tell, progressEveryMs)
      },
      [Symbol.dispose]: () => clearInterval(timer),
    }
  }

  #failWith(id: Id, error: unknown): void {
    const code = error instanceof CallError ? error.code : codes.internal
    this.#fail(id, code, error instanceof Error ? error.message : String(error))
  }

  #fail(id: Id | null, code: number, message: string): void {
    this.#say({ id, error: { code, message } })
  }

  #say(message: object): void {
    this.#send(JSON.stringify({ jsonrpc: '2.0', ...message }))
  }
}
