import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { usualPorts } from '../../../shared/hosts.ts'
import type { HostAlias } from '../../base/sandbox.ts'
import { decide, ruleMatches, type EgressPolicy, type Rule } from './policy.ts'

/** Beside the usual ones, of a host that is named: mail, directories, databases, queues. A rule without a port is one for these too. */
const furtherPorts: readonly number[] = [
  21, 25, 389, 465, 587, 636, 993, 1433, 3306, 5432, 5672, 6379, 9200, 27_017,
]

/** Those below the agent cannot bind. */
const firstOfTheAgent = 1024

const namedRules = ({ allow, pins }: EgressPolicy): readonly Rule[] => [
  ...allow,
  ...pins.flatMap(({ from }) => ('cidr' in from ? [] : [from])),
]

/** The ports at which a program that knows nothing but a name and a port may reach a host. */
export function portsOf(policy: EgressPolicy, host: string): number[] {
  const rules = namedRules(policy).filter((rule) =>
    rule.wildcard ? host.endsWith(`.${rule.host}`) : host === rule.host,
  )
  const ports = new Set<number>(rules.flatMap(({ port }) => (port === null ? [] : [port])))
  if (policy.mode === 'open' || rules.some(({ port }) => port === null))
    usualPorts.forEach((p) => ports.add(p))
  return [...ports].filter((port) => decide(policy, { host, port }).allowed).sort((a, b) => a - b)
}

/**
 * Where a host that can be reached is listened for at once: also at the ports that its contract names and the boundary
 * still keeps back, or that a person took back. Who tries one of those reaches the broker, and so whoever can say yes.
 */
export function heardPortsOf(policy: EgressPolicy, host: string): number[] {
  const open = portsOf(policy, host)
  if (open.length === 0) return []
  const kept = [...(policy.gate?.rules ?? []), ...policy.taken].flatMap((rule) =>
    rule.port !== null && ruleMatches(rule, { host, port: rule.port }) ? [rule.port] : [],
  )
  return [...new Set([...open, ...kept])]
}

/**
 * A host at its address. Ports that nobody waits for are listened on too: who tries one that is not allowed is told,
 * and the attempt is on record. The broker decides, wherever it listens. But a listener at one address takes the port from
 * every server of the agent's that binds all addresses: only to say no, it has none that the agent could want. (ADR 65)
 */
export const aliasOf = (
  policy: EgressPolicy,
  { host, ports }: Pick<HostAlias, 'host' | 'ports'>,
  address: string,
  further: readonly number[] = [],
): HostAlias => ({
  host,
  address,
  ports,
  laterPorts: [...usualPorts, ...further].filter(
    (port) => !ports.includes(port) && (port < firstOfTheAgent || decide(policy, { host, port }).allowed),
  ),
})

/** Each costs a listener for every port, and those are descriptors. */
const mostHosts = 60

/**
 * The first allowed exact hosts, each with an address; one beyond them gets its own when a program asks for its name, as
 * hosts below a wildcard do.
 *
 * Every one gets a loopback address of its own, on which the relay listens. The address comes
 * from the name, so it stays the same while rules come and go: a program that cached it is never led elsewhere.
 */
export function aliasesFor(policy: EgressPolicy): HostAlias[] {
  const exact = namedRules(policy).filter(({ wildcard, host }) => !wildcard && isIP(host) === 0)
  const named: Pick<HostAlias, 'host' | 'ports'>[] = []
  // In the order they were named: one that is added later takes the place of none.
  for (const host of new Set(exact.map((rule) => rule.host))) {
    const ports = heardPortsOf(policy, host)
    if (ports.length > 0) named.push({ host, ports })
    if (named.length === mostHosts) break
  }
  const taken = new Set<string>()
  return named
    .sort((a, b) => (a.host < b.host ? -1 : 1))
    .map((alias) => {
      const address = addressOf(alias.host, taken)
      taken.add(address)
      return aliasOf(policy, alias, address, furtherPorts)
    })
}

/** Sockets that listen for the hosts of a policy. */
export const listenersFor = (policy: EgressPolicy): number =>
  aliasesFor(policy).reduce((sum, { ports, laterPorts = [] }) => sum + ports.length + laterPorts.length, 0)

/** In 127.64.0.0/10, away from 127.0.0.1 and what resolvers use (127.0.0.53). */
export function addressOf(host: string, taken: ReadonlySet<string>): string {
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
