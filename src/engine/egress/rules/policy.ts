import { isIP } from 'node:net'
import { OrangeryError } from '../../../shared/errors.ts'
import { parseHostPattern, parsePinAddress } from '../../../shared/hosts.ts'
import type { OutputMode } from '../../../shared/spec.ts'
import { isInCidr, parseCidr } from '../../base/networks.ts'
import { ownName } from '../../base/sandbox.ts'
import { nat64Ipv4, refusedAddress } from './addresses.ts'
import { normaliseHost, parsePort, showTarget, splitHostPort, type Target, type Wanted } from './names.ts'

/** `host`, `host:port`, `*.host`, `*.host:port`. A wildcard covers every depth below, never the host itself. */
export type Rule = {
  readonly text: string
  readonly host: string
  readonly wildcard: boolean
  readonly port: number | null
}

/** The user's own word on where a name leads: the one way to loopback and the LAN. */
export type Pin = {
  readonly text: string
  readonly from: Rule | { readonly cidr: string; readonly port: number | null }
  readonly to:
    | { readonly kind: 'address'; readonly address: string; readonly port: number }
    /** The name is resolved as usual, and only addresses of this network are dialled. */
    | { readonly kind: 'network'; readonly cidr: string }
}

/** A plain value: it can be printed, compared, stored and sent. */
export type EgressPolicy = {
  readonly mode: OutputMode
  /** Plain HTTP is held to GET, HEAD and OPTIONS, and tunnels to TLS. */
  readonly readOnly: boolean
  readonly allow: readonly Rule[]
  readonly deny: readonly Rule[]
  readonly pins: readonly Pin[]
  /** What a person took back from a running agent; `returned` was granted since, and counts in spite of it. */
  readonly taken: readonly Rule[]
  readonly returned: readonly Rule[]
  /** The boundary that keeps back hosts which the contract names; null: every one. */
  readonly gate?: { readonly level: string; readonly rules: readonly Rule[] | null } | undefined
}

export type EgressDecision =
  | {
      readonly allowed: true
      readonly target: Target
      readonly why: string
      readonly dial:
        | { readonly kind: 'resolve' }
        | { readonly kind: 'network'; readonly cidr: string }
        | { readonly kind: 'address'; readonly address: string; readonly port: number }
    }
  | {
      readonly allowed: false
      readonly target: Target
      readonly why: string
      /** A wider boundary could let it through: it is missing, not forbidden. */
      readonly grantable: boolean
    }

export const denyAll: EgressPolicy = {
  mode: 'none',
  readOnly: false,
  allow: [],
  deny: [],
  pins: [],
  taken: [],
  returned: [],
}

function badRule(what: string, text: string, why: string): OrangeryError {
  return new OrangeryError('egress.bad_rule', `${what} "${text}": ${why}`, {
    kind: 'input',
    hint: 'A rule is HOST, HOST:PORT or *.HOST; a pin is HOST[:PORT]=ADDR:PORT.',
    details: { rule: text },
  })
}

export function parseRule(what: string, text: string): Rule {
  if (parseCidr(text) !== null)
    throw badRule(what, text, 'a network can only be pinned, not allowed or denied')
  if (text.includes('://')) throw badRule(what, text, 'give the host alone, without scheme and path')
  if (text === '*')
    throw badRule(
      what,
      text,
      what === 'denied host'
        ? 'to deny every host use the mode "none"'
        : 'to reach every public host use the mode "open"',
    )
  const pattern = parseHostPattern(text)
  if (pattern === undefined) throw badRule(what, text, 'not HOST, HOST:PORT or *.HOST')
  const wildcard = pattern.host.startsWith('*.')
  const host = wildcard ? pattern.host.slice(2) : pattern.host.replace(/^\[|\]$/g, '')
  return { text, host, wildcard, port: pattern.port }
}

function parsePin(key: string, value: string): Pin {
  const text = `${key}=${value}`
  const network = parseCidr(key)
  const from = network === null ? parseRule('pin', key) : { cidr: network, port: null }
  const cidr = parseCidr(value)
  if (cidr !== null) return { text, from, to: { kind: 'network', cidr } }
  const known = parsePinAddress(value)
  if (known !== undefined) return { text, from, to: { kind: 'address', ...known } }
  const split = splitHostPort(value)
  const address = split === null ? null : normaliseHost(split.host)
  if (split === null || address === null || isIP(address) === 0) {
    throw badRule('pin', text, 'must lead to an address, as in 127.0.0.1:8080')
  }
  const port = split.port ?? from.port
  if (port === null) throw badRule('pin', text, 'says no port to dial')
  return { text, from, to: { kind: 'address', address, port } }
}

/** `outputs` of a SandboxSpec, or what the policy makes of them at a boundary. */
export type OutputRules = {
  readonly mode?: OutputMode | undefined
  readonly allow?: readonly string[] | undefined
  readonly deny?: readonly string[] | undefined
  readonly pins?: Readonly<Record<string, string>> | undefined
  readonly read_only?: boolean | undefined
  readonly taken?: readonly string[] | undefined
  readonly returned?: readonly string[] | undefined
  readonly gate?: { readonly level: string; readonly hosts: readonly string[] | null } | undefined
}

/** Reads `outputs` of a SandboxSpec. Lists without a mode mean `restricted`; nothing at all means `none`. */
export function parseOutputs(outputs: OutputRules | undefined): EgressPolicy {
  if (outputs === undefined) return denyAll
  const lists = outputs.allow !== undefined || outputs.pins !== undefined
  return {
    mode: outputs.mode ?? (lists ? 'restricted' : 'none'),
    readOnly: outputs.read_only ?? false,
    allow: (outputs.allow ?? []).map((text) => parseRule('allowed host', text)),
    deny: (outputs.deny ?? []).map((text) => parseRule('denied host', text)),
    pins: Object.entries(outputs.pins ?? {}).map(([key, value]) => parsePin(key, value)),
    taken: (outputs.taken ?? []).map((text) => parseRule('host taken back', text)),
    returned: (outputs.returned ?? []).map((text) => parseRule('host given again', text)),
    ...(outputs.gate === undefined ? {} : { gate: parseGate(outputs.gate) }),
  }
}

const parseGate = ({
  level,
  hosts,
}: NonNullable<OutputRules['gate']>): NonNullable<EgressPolicy['gate']> => ({
  level,
  rules: hosts?.map((text) => parseRule('allowed host', text)) ?? null,
})

/** One `--allow-host HOST[:PORT][=ADDR:PORT]` as the part of `outputs` it stands for. */
export function parseAllowHost(text: string): { readonly allow: string; readonly pin?: [string, string] } {
  const at = text.indexOf('=')
  if (at === -1) {
    parseRule('--allow-host', text)
    return { allow: text }
  }
  const [key, value] = [text.slice(0, at), text.slice(at + 1)]
  parsePin(key, value)
  if (parseCidr(key) !== null) throw badRule('--allow-host', text, 'networks are pinned in the sandbox spec')
  return { allow: key, pin: [key, value] }
}

export function ruleMatches(rule: Rule, target: Target): boolean {
  if (rule.port !== null && rule.port !== target.port) return false
  return rule.wildcard ? target.host.endsWith(`.${rule.host}`) : target.host === rule.host
}

function pinMatches(pin: Pin, target: Target): boolean {
  if (!('cidr' in pin.from)) return ruleMatches(pin.from, target)
  return isIP(target.host) !== 0 && isInCidr(target.host, pin.from.cidr)
}

/** The most specific pin wins: with a port before without, a name before a wildcard, anything before a network. */
function pinRank(pin: Pin): number {
  if ('cidr' in pin.from) return 0
  return 1 + (pin.from.wildcard ? 0 : 2) + (pin.from.port === null ? 0 : 1)
}

const takenText = 'a person took it back'

const isTaken = ({ taken, returned }: EgressPolicy, target: Target): boolean =>
  taken.some((rule) => ruleMatches(rule, target)) && !returned.some((rule) => ruleMatches(rule, target))

/** A request for it could be approved, and it would be refused all the same. */
function ownPlaceOf(host: string): string | null {
  const why = isIP(host) === 0 ? null : refusedAddress(host)
  if (isSandboxItself(host))
    return `${why ?? (host === ownName ? 'the sandbox itself' : 'localhost')}, which only a pin under another name opens`
  return why === null ? null : `${why}, which only a pin opens`
}

/** Programs look there in their own sandbox, past every proxy and hosts file. */
export function isSandboxItself(host: string): boolean {
  if (isIP(host) === 0) return host === ownName || /(^|\.)localhost$/.test(host)
  return isInCidr(host, '127.0.0.0/8') || isInCidr(host, '::1/128')
}

function readHost(text: string): { readonly host: string; readonly port: number | null } {
  const { host = '', port = null } = parseHostPattern(text) ?? {}
  return { host: host.replace(/^\[|\]$/g, ''), port }
}

/** Of some hosts those that lie outside of the sandbox: what an agent serves on its own loopback is its own. */
export const outsideSandbox = (hosts: readonly string[]): readonly string[] =>
  hosts.filter((text) => !isSandboxItself(readHost(text).host))

type OwnPlace = { readonly text: string; readonly why: string }
export const cannotAsk = ({ text, why }: OwnPlace): string => `${text} cannot be asked for: ${why}`

/** The first of some hosts that no rule opens, and why. A pin, which is the user's own, opens it: where one stands, it is like any other. */
export function findOwnPlace(hosts: readonly string[], pins: OutputRules['pins']): OwnPlace | null {
  const pinned = parseOutputs({ pins }).pins
  for (const text of hosts) {
    const { host, port } = readHost(text)
    const why = ownPlaceOf(host)
    const isPinned = (pin: Pin) => pinMatches(pin, { host, port: port ?? pin.from.port ?? 0 })
    if (why !== null && !pinned.some(isPinned)) return { text, why }
  }
  return null
}

/** Refuses to ask for what a yes would not open. */
export function refuseOwnPlaces(hosts: readonly string[], pins: OutputRules['pins']): void {
  const found = findOwnPlace(hosts, pins)
  if (found === null) return
  throw new OrangeryError('boundary.own_place', cannotAsk(found), {
    kind: 'refused',
    hint: 'Only who starts the agent can open that: --allow-host NAME:PORT=ADDR:PORT',
  })
}

function missingText({ mode, allow, pins, gate }: EgressPolicy, isOf: (rule: Rule) => boolean): string {
  if (gate !== undefined && (gate.rules === null || gate.rules.some(isOf)))
    return gate.level === 'network' || gate.level === 'full'
      ? `the boundary is ${gate.level}, and this host waits for a yes of its own`
      : `the boundary is ${gate.level}, and it waits for network`
  if (mode === 'none') return 'outputs are none'
  return allow.length + pins.length === 0
    ? 'the list of allowed hosts is empty'
    : 'not in the list of allowed hosts'
}

export function decide(policy: EgressPolicy, asked: Target): EgressDecision {
  const host = normaliseHost(asked.host)
  const deny = (target: Target, why: string, grantable = false): EgressDecision => ({
    allowed: false,
    target,
    why,
    grantable,
  })
  if (host === null || parsePort(String(asked.port)) === null) return deny(asked, 'not a host and port')
  const target = { host, port: asked.port }
  const denied = policy.deny.find((rule) => ruleMatches(rule, target))
  if (denied !== undefined) return deny(target, `denied by the rule ${denied.text}`)
  if (isTaken(policy, target)) return deny(target, takenText, true)
  const missing = (why: string) => {
    const ownPlace = ownPlaceOf(host)
    return deny(target, ownPlace ?? why, ownPlace === null)
  }
  if (policy.mode === 'none') return missing(missingText(policy, (rule) => ruleMatches(rule, target)))
  const pin = policy.pins
    .filter((candidate) => pinMatches(candidate, target))
    .sort((a, b) => pinRank(b) - pinRank(a))[0]
  if (pin !== undefined) return { allowed: true, target, why: `pinned by ${pin.text}`, dial: pin.to }
  if (policy.mode === 'open')
    return { allowed: true, target, why: 'outputs are open', dial: { kind: 'resolve' } }
  const rule = policy.allow.find((candidate) => ruleMatches(candidate, target))
  if (rule === undefined) return missing(missingText(policy, (rule) => ruleMatches(rule, target)))
  return { allowed: true, target, why: `allowed by the rule ${rule.text}`, dial: { kind: 'resolve' } }
}

/** The denial of an address that a name or a pin leads to: deny wins, by whatever name it is asked for. */
export function deniedAddress(policy: EgressPolicy, address: string, port: number): string | null {
  // A rule may name the machine by its own address or by the one a NAT64 gateway has for it, and so may the name.
  const spellings = (text: string) => [normaliseHost(text) ?? text, nat64Ipv4(text) ?? text]
  const hosts = spellings(address)
  const isNamed = (rule: Rule) =>
    spellings(rule.host).some((host) =>
      hosts.some((asked) => ruleMatches({ ...rule, host }, { host: asked, port })),
    )
  const denied = policy.deny.find(isNamed)
  if (denied !== undefined) return `denied by the rule ${denied.text}`
  return hosts.some((host) => isTaken(policy, { host, port })) ? takenText : null
}

/** Why none of a host's ports may be reached, for a program that names only the host. */
export function decideName(policy: EgressPolicy, host: string): { why: string; grantable: boolean } {
  const denied = policy.deny.find((rule) => ruleMatches({ ...rule, port: null }, { host, port: 0 }))
  if (denied !== undefined) return { why: `denied by the rule ${denied.text}`, grantable: false }
  const { taken, returned } = policy
  const ofAnyPort = (rules: readonly Rule[]) => rules.map((rule) => ({ ...rule, port: null }))
  const someTaken = { ...policy, taken: ofAnyPort(taken), returned: ofAnyPort(returned) }
  if (isTaken(someTaken, { host, port: 0 })) return { why: takenText, grantable: true }
  const isOf = (rule: Rule) => ruleMatches({ ...rule, port: null }, { host, port: 0 })
  return { why: missingText(policy, isOf), grantable: true }
}

/** What the denied program reads, and the log says. */
export function denialText(target: Wanted, why: string): string {
  return `Orangery does not let this sandbox reach ${showTarget(target)}: ${why}`
}
