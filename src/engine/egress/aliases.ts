import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import type { HostAlias } from '../base/sandbox.ts'
import { decide, type EgressPolicy, type Rule } from './policy.ts'

/** Where a rule says no port: what plain `connect()` programs use most (ssh, http, https, git). */
const usualPorts = [22, 80, 443, 9418] as const

/**
 * Every allowed exact host gets a loopback address of its own, on which the relay listens. The address comes
 * from the name, so it stays the same while rules come and go: a program that cached it is never led elsewhere.
 */
export function aliasesFor(policy: EgressPolicy): HostAlias[] {
  const ports = new Map<string, Set<number>>()
  const pinned = policy.pins.flatMap(({ from }) => ('cidr' in from ? [] : [from]))
  for (const rule of [...policy.allow, ...pinned] satisfies Rule[]) {
    if (rule.wildcard || isIP(rule.host) !== 0) continue
    for (const port of rule.port === null ? usualPorts : [rule.port]) {
      if (!decide(policy, { host: rule.host, port }).allowed) continue
      const known = ports.get(rule.host) ?? new Set<number>()
      ports.set(rule.host, known.add(port))
    }
  }
  const taken = new Set<string>()
  return [...ports.keys()].sort().map((host) => {
    const address = addressOf(host, taken)
    taken.add(address)
    return { host, address, ports: [...(ports.get(host) ?? [])].sort((a, b) => a - b) }
  })
}

/** In 127.64.0.0/10, away from 127.0.0.1 and what resolvers use (127.0.0.53). */
function addressOf(host: string, taken: ReadonlySet<string>): string {
  for (let attempt = 0; ; attempt++) {
    const digest = createHash('sha256').update(`${attempt} ${host}`).digest()
    const [a = 0, b = 0, c = 0] = digest
    const address = `127.${64 + (a % 64)}.${b}.${1 + (c % 254)}`
    if (!taken.has(address)) return address
  }
}

/**
 * The sandbox's private `/etc/hosts`. Rewrite it in place (same inode): the sandbox sees it through a bind
 * mount, which a rename would leave behind.
 */
export function hostsFile(aliases: readonly HostAlias[]): string {
  const lines = ['127.0.0.1 localhost', '::1 localhost ip6-localhost ip6-loopback']
  for (const { address, host } of aliases) lines.push(`${address} ${host}`)
  return `${lines.join('\n')}\n`
}
