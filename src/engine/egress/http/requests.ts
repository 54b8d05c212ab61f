import type { IncomingMessage } from 'node:http'
import { normaliseSent, parseAuthority, showTarget, type Target } from '../rules/names.ts'
import { authorizationOf, type Forwarder } from '../dial/upstream.ts'

/** As a proxy is asked. */
export const wholeUrl = (asked: Target, path: string): string =>
  `http://${authorityOf(asked)}${path === '*' ? '' : path}`

/** The proxy is asked for an address: which host is meant there, only the header says. */
export const forProxy = (target: Target, headers: readonly string[], { proxy }: Forwarder): string[] => {
  const isNamed = headers.some((name, index) => index % 2 === 0 && name.toLowerCase() === 'host')
  const authorization = authorizationOf(proxy)
  return [
    ...(isNamed ? [] : ['Host', authorityOf(target)]),
    ...headers,
    ...(authorization === null ? [] : ['Proxy-Authorization', authorization]),
  ]
}

export function placeOfProxyRequest(url: string): { target: Target; path: string } | null {
  const match = /^http:\/\/([^/?#\\]*)([/?][^#]*)?$/i.exec(url)
  if (match === null) return null
  const [, authority = '', rest = '/'] = match
  // Only what follows the last "@" is the host: http://allowed@other/ leads to other.
  const target = parseAuthority(authority.slice(authority.lastIndexOf('@') + 1), 80)
  return target === null ? null : { target, path: rest.startsWith('?') ? `/${rest}` : rest }
}

/** A front end that serves many names goes by the Host header: it must name the host that was allowed. */
export function wrongHost(request: IncomingMessage, target: Target): string | null {
  const named = request.rawHeaders.filter(
    (_, index, all) => all[index - 1]?.toLowerCase() === 'host' && index % 2,
  )
  if (named.length > 1) return 'the request has two Host headers'
  const [text] = named
  if (text === undefined) return request.httpVersion === '1.0' ? null : 'the request has no Host header'
  const host = parseAuthority(text, target.port, normaliseSent)
  if (host?.host === target.host) return null
  return `the Host header names ${host?.host ?? 'no host'} in a connection to ${showTarget(target)}`
}

export function nameHost(headers: string[], target: Target): void {
  const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'host')
  headers[at + 1] = authorityOf(target)
}

/** A host and port in a request that is not TLS. */
const authorityOf = (target: Target): string =>
  target.port === 80 ? showTarget(target).replace(/:80$/, '') : showTarget(target)
