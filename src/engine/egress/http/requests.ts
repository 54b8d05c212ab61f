import { maxHeaderSize, type IncomingMessage } from 'node:http'
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

const overflow = 'HPE_HEADER_OVERFLOW'
const badUrl = 'HPE_INVALID_URL'

/** What of Node's parser's errors is told. */
export type ParseError = NodeJS.ErrnoException & {
  readonly reason?: string
  readonly rawPacket?: Buffer
  /** So many bytes of that it took. */
  readonly bytesParsed?: number
}

export function whyUnreadable({ code, reason }: ParseError): string {
  if (code === overflow)
    return `the request's first line and headers are longer than ${maxHeaderSize} bytes together`
  if (code === badUrl)
    return 'the address in the request has a byte that HTTP does not allow there: write it percent-encoded'
  return `the request could not be read: ${reason ?? code ?? 'it is no proper HTTP'}`
}

/** Where a request to a proxy was to lead that could not be read to its end, for the record; null where it does not say so. */
export function placeOfUnreadable({ rawPacket, bytesParsed = 0 }: ParseError): Target | null {
  const text = rawPacket?.toString('latin1', 0, bytesParsed) ?? ''
  // An earlier request may stand before it. A letter beyond ASCII is read as no host's.
  const [line] = [...text.matchAll(/^(?:CONNECT ([!-~]+) |[A-Z-]+ http:\/\/([!-.0->@-~]+)[ /?])/gm)].slice(-1)
  if (line === undefined) return null
  const [, tunnel, host = ''] = line
  if (tunnel !== undefined) return parseAuthority(tunnel, null)
  return placeOfProxyRequest(`http://${host}`)?.target ?? null
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
