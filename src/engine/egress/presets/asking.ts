import { run } from '../../base/process.ts'
import { parseAuthority, showTarget } from '../rules/names.ts'
import { runApart } from './apart.ts'

/** Whose tools are asked, and about what. */
export type PresetContext = {
  readonly home: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly roots: readonly string[]
  /** Hosts that the agent's card names. */
  readonly cardHosts: readonly string[]
  /** Reads a text from the network, to follow an index to where its files lie. Null where that fails. */
  readonly fetchText?: (url: string) => Promise<string | null>
  /** How long a tool may take to answer. */
  readonly patienceMs?: number
  /** Told of a tool that took longer. */
  readonly onSlow?: (tool: string) => void
  readonly resolve?: (host: string) => Promise<readonly string[]>
}

const ports: Readonly<Record<string, number>> = { http: 80, https: 443, ssh: 22, 'git+ssh': 22, git: 9418 }

/** A password may have an `@` of its own: the host follows the last one. */
const withoutUser = (url: string): string => url.replace(/^(\s*[a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1')

/**
 * Where a url leads. What it says besides, a name and password before the host and whatever a question or a mark carry
 * behind the path, is the broker's to put in, if anybody's: the agent must not see it. (escape: token-in-a-registry-url)
 */
export const addressOf = (url: string): string =>
  withoutUser(url).replace(/^(\s*[a-z][a-z0-9+.-]*:\/\/[^?#]*)[?#].*$/is, '$1')
/** The same of every url in a text. */
export const addressesOnly = (text: string): string =>
  text.replaceAll(/(:\/\/)[^/\s<>"']*@/g, '$1').replaceAll(/(:\/\/[^\s<>"'?#]*)[?#][^\s<>"']*/g, '$1')

/** `host:port` of every url that leads over a network. */
export function hostsOf(urls: readonly string[]): string[] {
  return urls.flatMap((text) => {
    const url = withoutUser(text.trim().replace(/^(sparse|registry)\+/, ''))
    const full = /^([a-z+]+):\/\/(\[[^\]]*\](?::\d+)?|[^/?#]+)/i.exec(url)
    const target =
      full === null ? null : parseAuthority(full[2] ?? '', ports[(full[1] ?? '').toLowerCase()] ?? null)
    return target === null ? [] : [showTarget(target)]
  })
}

export const urlsIn = (text: string): string[] => text.match(/https?:\/\/[^\s'"<>]+/g) ?? []
export const urlOf = (host: string) =>
  host.endsWith(':80') ? `http://${host.slice(0, -3)}/` : `https://${host.replace(/:443$/, '')}/`

export function toolEnv(context: PresetContext): Record<string, string> {
  const known = Object.entries(context.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  return { ...Object.fromEntries(known), HOME: context.home }
}

/** From an empty place: a repository's own files must not say what the user's tools are configured for. */
export async function output(
  context: PresetContext,
  [file, ...args]: readonly [string, ...string[]],
): Promise<string> {
  const ran = await run(file, args, { cwd: '/', env: toolEnv(context), timeoutMs: 15_000 }).catch(() => null)
  return ran?.code === 0 ? ran.stdout.toString() : ''
}

/** The same of a tool that might talk to the network meanwhile. */
export async function outputApart(
  context: PresetContext,
  command: readonly [string, ...string[]],
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const timeoutMs = context.patienceMs ?? 15_000
  const asked = { cwd: '/', env: { ...toolEnv(context), ...more }, timeoutMs }
  const ran = await runApart(command, asked).catch(() => null)
  if (ran?.signal === 'SIGKILL') context.onSlow?.(command[0])
  return ran?.code === 0 ? ran.stdout.toString() : ''
}

export function parseJson(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}

export async function read(context: PresetContext, url: string): Promise<string | null> {
  if (context.fetchText !== undefined) return context.fetchText(url)
  try {
    const deadline = AbortSignal.timeout(5000)
    // Where an answer sends us is not what the user's tools are configured for: only the same server is asked again.
    for (let at = url, hops = 0; hops < 4; hops++) {
      const response = await fetch(at, { signal: deadline, redirect: 'manual' })
      if (response.ok) return (await response.text()).slice(0, 2_000_000)
      const next = new URL(response.headers.get('location') ?? '', at)
      if (response.status < 300 || response.status > 399 || next.origin !== new URL(at).origin) return null
      at = next.href
    }
    return null
  } catch {
    return null
  }
}
