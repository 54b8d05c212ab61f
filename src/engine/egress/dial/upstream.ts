import { isIP, isIPv4, type Socket } from 'node:net'
import { connect as tlsConnect, type SecureContext } from 'node:tls'
import { isInCidr, parseCidr } from '../../base/networks.ts'
import { codedError, deadlineOf, dial, withDeadline } from './dial.ts'
import { parseHead } from '../http/exchange.ts'
import { Unreachable } from './failures.ts'
import { normaliseHost, showTarget, splitHostPort, type Target } from '../rules/names.ts'
import { readUntil } from '../line/reading.ts'
import type { Resolver } from '../lookups/resolver.ts'
import { askSocks, type Login } from './socksClient.ts'

/** A proxy of the user's own environment, as companies have them. */
export type Proxy = {
  readonly host: string
  readonly port: number
  /** `https`: TLS to the proxy itself. `socks5` carries connections only, no requests. */
  readonly kind: 'http' | 'https' | 'socks5'
  readonly login: Login | null
}

/** What `Proxy-Authorization` says; null: nothing. */
export const authorizationOf = ({ login }: Proxy): string | null =>
  login === null ? null : `Basic ${Buffer.from(`${login.user}:${login.password}`).toString('base64')}`

export type Proxies = {
  /** For plain HTTP requests. */
  readonly plain: Proxy | null
  /** For everything else. */
  readonly tunnel: Proxy | null
  /** Hosts that are reached without: `NO_PROXY`, as curl and Go read it. */
  readonly except: readonly string[]
  /** The user lets them say where a name leads; else they are asked for addresses that we have checked. */
  readonly resolve: boolean
}

type Environment = Readonly<Record<string, string | undefined>>

/** The proxies an environment names, and what about it is not understood. Null: none. */
export function proxiesOf(
  env: Environment,
  resolve = false,
): {
  readonly proxies: Proxies | null
  readonly ignored: readonly string[]
} {
  const ignored: string[] = []
  const first = (...names: readonly string[]): Proxy | null => {
    const name = names.flatMap((text) => [text.toLowerCase(), text]).find((text) => (env[text] ?? '') !== '')
    if (name === undefined) return null
    const proxy = parseProxy(env[name] ?? '')
    if (proxy === null && !ignored.includes(name)) ignored.push(name)
    return proxy
  }
  const tunnel = first('HTTPS_PROXY', 'ALL_PROXY')
  // In capitals it can be set by a request to a CGI program; that is not us, and everyone sets it so.
  const plain = first('HTTP_PROXY', 'ALL_PROXY')
  if (tunnel === null && plain === null) return { proxies: null, ignored }
  const except = (env['no_proxy'] ?? env['NO_PROXY'] ?? '')
    .split(',')
    .map((text) => text.trim().toLowerCase())
  return { proxies: { plain, tunnel, except: except.filter((text) => text !== ''), resolve }, ignored }
}

/** By scheme, with the port that goes without saying. Who resolves is not the scheme's to say: `socks5h` is `socks5`. */
const proxyKinds: Readonly<Record<string, readonly [kind: Proxy['kind'], port: number]>> = {
  'http:': ['http', 80],
  'https:': ['https', 443],
  'socks:': ['socks5', 1080],
  'socks5:': ['socks5', 1080],
  'socks5h:': ['socks5', 1080],
}

function parseProxy(text: string): Proxy | null {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  const [kind, usualPort] = proxyKinds[url?.protocol ?? ''] ?? []
  if (url === null || kind === undefined || usualPort === undefined) return null
  const host = normaliseHost(url.hostname)
  const [user, password] = [url.username, url.password].map(decoded)
  if (host === null || user === undefined || password === undefined) return null
  const login = user === '' && password === '' ? null : { user, password }
  return { host, port: url.port === '' ? usualPort : Number(url.port), kind, login }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Without its login. */
export const showProxy = ({ host, port, kind }: Proxy): string => `${kind}://${showTarget({ host, port })}`

export type Carrying = 'tunnel' | 'request'

/** The proxy that leads to a host, or null where it is reached directly. */
export function proxyFor(proxies: Proxies | null, target: Target, carrying: Carrying): Proxy | null {
  if (proxies === null || proxies.except.some((rule) => excepts(rule, target))) return null
  return carrying === 'request' ? proxies.plain : proxies.tunnel
}

function excepts(rule: string, { host, port }: Target): boolean {
  if (rule === '*') return true
  const cidr = parseCidr(rule)
  if (cidr !== null) return isIP(host) !== 0 && isInCidr(host, cidr)
  const split = splitHostPort(rule.replace(/^\*?\./, ''))
  const name = split === null ? null : normaliseHost(split.host)
  if (split === null || name === null || (split.port !== null && split.port !== port)) return false
  return host === name || (isIP(name) === 0 && host.endsWith(`.${name}`))
}

/** Names that mean something only in the proxy's own network, or nothing at all. */
export const isLocalName = (host: string): boolean =>
  isIP(host) === 0 &&
  (!host.includes('.') || /\.(localhost|local|internal|intranet|lan|home\.arpa)$/.test(host))

type Way = {
  readonly resolver: Resolver
  readonly trust: () => SecureContext
  readonly deadline: number
}

/** A proxy, and what it is asked for in the place of the host: the address that was checked. */
export type Forwarder = { readonly proxy: Proxy; readonly asked: Target }

export type Dialled = {
  readonly upstream: Socket
  /** Where whole requests are handed over, and no bytes. */
  readonly forwarder: Forwarder | null
  /** Where it leads; null where only the proxy knows. */
  readonly place: Target | null
  /** What else the proxy can be asked for. */
  readonly others: readonly string[]
}

export const takesRequests = (proxy: Proxy | null): boolean => proxy !== null && proxy.kind !== 'socks5'

/** Addresses of one host that a proxy is asked for, one after the other. */
const mostAsked = 4

/** `hosts`: what the proxy may be asked for, an address that was checked where the user does not let it resolve. */
export async function dialThrough(
  proxy: Proxy,
  target: Target,
  hosts: readonly string[],
  carrying: Carrying,
  { deadline, ...given }: Way,
): Promise<Dialled> {
  // Many proxies know no IPv6, and cannot be asked which they do.
  const inOrder = hosts.toSorted((a, b) => Number(isIPv4(b)) - Number(isIPv4(a))).slice(0, mostAsked)
  let failure = 'no address'
  for (const [index, host] of inOrder.entries()) {
    if (deadline <= Date.now()) break
    const way = { ...given, deadline: deadlineOf(deadline, index === inOrder.length - 1) }
    const asked = { host, port: target.port }
    const place = isIP(host) === 0 ? null : asked
    try {
      // Only its answer tells whether it has a way there.
      if (carrying === 'request' && takesRequests(proxy)) {
        const others = inOrder.slice(index + 1)
        return { upstream: await reachProxy(proxy, way), forwarder: { proxy, asked }, place, others }
      }
      return { upstream: await tunnelThrough(proxy, asked, way), forwarder: null, place, others: [] }
    } catch (error) {
      const { code = 'failed' } = error as NodeJS.ErrnoException
      failure = code.includes(' ') ? code : `the proxy ${showProxy(proxy)} (${code})`
      if (host !== target.host) failure += `, which was asked for ${host}`
    }
  }
  throw new Unreachable(target, failure)
}

/** A connection to the proxy itself, ready for requests in absolute form. */
async function reachProxy(proxy: Proxy, { resolver, trust, deadline }: Way): Promise<Socket> {
  const addresses = isIP(proxy.host) === 0 ? await withDeadline(resolver(proxy.host), deadline) : [proxy.host]
  let failure: unknown = codedError('ENOTFOUND')
  for (const address of addresses) {
    try {
      const socket = await dial(address, proxy.port, deadline - Date.now())
      return proxy.kind === 'https' ? await secured(socket, proxy, trust(), deadline) : socket
    } catch (error) {
      failure = error
    }
  }
  throw failure
}

function secured(
  socket: Socket,
  proxy: Proxy,
  secureContext: SecureContext,
  deadline: number,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const name = isIP(proxy.host) === 0 ? { servername: proxy.host } : {}
    const tls = tlsConnect({ socket, host: proxy.host, ...name, ALPNProtocols: ['http/1.1'], secureContext })
    const timer = setTimeout(() => tls.destroy(codedError('ETIMEDOUT')), deadline - Date.now())
    tls.once('close', () => clearTimeout(timer))
    tls.once('secureConnect', () => {
      clearTimeout(timer)
      resolve(tls)
    })
    tls.on('error', (error) => {
      socket.destroy()
      reject(error)
    })
  })
}

/** A tunnel through the proxy, to an address that was checked, or to a name that it is let resolve. */
async function tunnelThrough(proxy: Proxy, target: Target, way: Way): Promise<Socket> {
  const socket = await reachProxy(proxy, way)
  if (proxy.kind === 'socks5') {
    await askSocks(socket, target, proxy.login, way.deadline).catch((error: NodeJS.ErrnoException) => {
      socket.destroy()
      throw codedError(`the proxy ${showProxy(proxy)} ${error.code ?? 'failed'}`)
    })
    return socket
  }
  const authority = showTarget(target)
  const authorization = authorizationOf(proxy)
  const header = authorization === null ? '' : `Proxy-Authorization: ${authorization}\r\n`
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${header}\r\n`)
  const head = await readUntil(socket, (bytes) => parseHead(bytes, 'HEAD'), way.deadline - Date.now())
  if (head !== null && head.status >= 200 && head.status < 300) return socket
  socket.destroy()
  const answer =
    head === null || head.status > 999 ? 'gave no answer' : `answered ${head.status} ${head.message}`.trim()
  throw codedError(`the proxy ${showProxy(proxy)} ${answer}`)
}
