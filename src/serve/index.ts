import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WebSocketServer, type WebSocket } from 'ws'
import { OrangeryError } from '../shared/errors.ts'
import type { Handlers } from '../shared/api.ts'
import { serveChannel } from '../shared/wire/index.ts'
import { accountName } from '../engine/base/accountName.ts'
import { ensureRuntimeDir } from '../engine/base/runtime.ts'
import { builtWindow, loadAssets, type Asset } from './assets.ts'
import { Door } from './door.ts'
import { securityHeaders } from './headers.ts'
import { lockedPage, welcomePage } from './pages.ts'
import { webSocketChannel } from './channel.ts'

export { securityHeaders } from './headers.ts'
export { builtWindow, loadAssets, packageRoot, type Asset } from './assets.ts'

export type ServeOptions = {
  readonly engine: { readonly handlers: Handlers }
  /** 0 or absent: any free port. */
  readonly port?: number
  /** Another build of the window than ours; tests use it. */
  readonly assets?: string
  readonly onUnexpected?: (error: unknown) => void
}

export type Serving = {
  /** Opens the window once; see `tokenFile` for the next time. */
  readonly url: string
  readonly port: number
  readonly tokenFile: string
  close(): Promise<void>
}

const maxConnections = 64
const maxMessageBytes = 16 * 1024 * 1024

function respond(
  response: ServerResponse,
  status: number,
  type: string,
  body: string | Buffer,
  cache = 'no-store',
) {
  response.writeHead(status, { ...securityHeaders, 'content-type': type, 'cache-control': cache })
  response.end(body)
}

async function listen(server: ReturnType<typeof createServer>, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        new OrangeryError(
          'serve.port',
          `port ${port}: ${error.code === 'EADDRINUSE' ? 'already in use' : error.message}`,
          {
            kind: 'cannot_create',
            hint: 'Choose another with --port, or leave it out for any free one.',
          },
        ),
      ),
    )
    // Loopback only: this is the user's machine talking to itself.
    server.listen({ host: '127.0.0.1', port, exclusive: true }, resolve)
  })
  return (server.address() as AddressInfo).port
}

/** The window in a browser, on loopback, behind a one-time secret. */
export async function serve(options: ServeOptions): Promise<Serving> {
  const { engine } = options
  const caller = { by: accountName() }
  const assets = await loadAssets(options.assets ?? builtWindow())
  const { data_dir: dataDir } = await engine.handlers['host.info']({}, caller)

  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 })
  const port = await listen(server, options.port ?? 0)
  const tokenFile = join(await ensureRuntimeDir(dataDir), `serve-${port}.token`)
  const door = new Door(tokenFile, port)
  const token = await door.renew()
  const hosts = new Set([`127.0.0.1:${port}`, `localhost:${port}`])

  // A page of another site whose name was pointed at 127.0.0.1 sends its own name here. (escape: serve-rebinding)
  const rightHost = (request: IncomingMessage) => hosts.has(request.headers.host ?? '')
  const ownOrigin = (request: IncomingMessage) =>
    request.headers.origin === `http://${request.headers.host ?? ''}`

  async function send(response: ServerResponse, asset: Asset) {
    const body = await asset.read()
    respond(
      response,
      200,
      asset.type,
      body,
      asset.immutable ? 'private, max-age=31536000, immutable' : 'no-store',
    )
  }

  server.on('request', (request, response) => {
    void (async () => {
      if (!rightHost(request))
        return respond(response, 421, 'text/plain', 'This is not the host you asked for.\n')
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        return respond(response, 405, 'text/plain', 'Only GET.\n')
      }
      const [path = '/', query = ''] = (request.url ?? '/').split('?', 2)
      if (path === '/enter') {
        const cookie = door.enter(new URLSearchParams(query).get('token') ?? '')
        if (cookie !== null) {
          await door.renew()
          response.setHeader('set-cookie', cookie)
          return respond(response, 200, 'text/html; charset=utf-8', welcomePage)
        }
        // Reloading the address one came by is no offence.
        if (door.admits(request.headers.cookie))
          return respond(response, 200, 'text/html; charset=utf-8', welcomePage)
      }
      if (!door.admits(request.headers.cookie))
        return respond(response, 401, 'text/html; charset=utf-8', lockedPage)
      const asset = assets.get(path)
      if (asset === undefined) return respond(response, 404, 'text/plain', 'Not found.\n')
      await send(response, asset)
    })().catch((error: unknown) => {
      options.onUnexpected?.(error)
      response.destroy()
    })
  })

  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
  })
  const open = new Set<WebSocket>()
  server.on('upgrade', (request, socket, head) => {
    const welcome =
      rightHost(request) &&
      ownOrigin(request) &&
      request.url === '/wire' &&
      door.admits(request.headers.cookie)
    socket.on('error', () => socket.destroy())
    if (!welcome || open.size >= maxConnections) {
      socket.end(
        `HTTP/1.1 ${welcome ? '503 Service Unavailable' : '403 Forbidden'}\r\nConnection: close\r\n\r\n`,
      )
      return
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      open.add(webSocket)
      webSocket.on('close', () => open.delete(webSocket))
      webSocket.on('error', () => webSocket.terminate())
      serveChannel(engine.handlers, webSocketChannel(webSocket), caller, options.onUnexpected)
    })
  })

  return {
    url: `http://127.0.0.1:${port}/enter?token=${token}`,
    port,
    tokenFile,
    async close() {
      await door[Symbol.asyncDispose]()
      for (const webSocket of open) webSocket.close(1001)
      sockets.close()
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      setTimeout(() => {
        for (const webSocket of open) webSocket.terminate()
        server.closeAllConnections()
      }, 500).unref()
      server.closeIdleConnections()
      await closed
    },
  }
}
