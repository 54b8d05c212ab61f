import type { Asset } from '../serve/index.ts'
import { securityHeaders } from '../serve/index.ts'
import { windowOrigin, type ElectronParts } from './parts.ts'

/** Before the app is ready: `app://` becomes an origin of its own, with none of the reach of `file://`. */
export function registerScheme({ protocol }: Pick<ElectronParts, 'protocol'>): void {
  protocol.registerSchemesAsPrivileged([
    { scheme: 'app', privileges: { standard: true, secure: true, supportFetchAPI: true, codeCache: true } },
  ])
}

/** Serves the built window, with its policy, and nothing else. */
export function answerScheme(
  { protocol }: Pick<ElectronParts, 'protocol'>,
  assets: ReadonlyMap<string, Asset>,
): void {
  protocol.handle('app', async (request) => {
    const url = new URL(request.url)
    const asset = url.host === new URL(windowOrigin).host ? assets.get(url.pathname) : undefined
    if (asset === undefined || request.method !== 'GET') return new Response('Not found.', { status: 404 })
    const body = new Uint8Array(await asset.read())
    return new Response(body, { headers: { ...securityHeaders, 'content-type': asset.type } })
  })
}
