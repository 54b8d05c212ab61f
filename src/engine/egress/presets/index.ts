import { lookup } from 'node:dns/promises'
import { OrangeryError } from '../../../shared/errors.ts'
import { presetOf, type PresetName } from '../../../shared/hosts.ts'
import type { Outputs } from '../../../shared/spec.ts'
import { isOnlyForPins, refusedAddress, type Interface } from '../rules/addresses.ts'
import { parseAuthority, showTarget } from '../rules/names.ts'
import { ownAddresses } from '../rules/ownAddresses.ts'
import { parseAllowHost } from '../rules/policy.ts'
import { checkApart } from './apart.ts'
import { toolEnv, type PresetContext } from './asking.ts'
import { git } from './git.ts'
import { maven } from './maven.ts'
import { toldOpen, type Found, type Told } from './told.ts'
import { cargo, go, npm, pip } from './tools.ts'

/**
 * The hosts a preset stands for on this machine, as `--allow-host` takes them. They are derived from what the
 * user's own tools are configured for, so a company's mirror works and no registry is named in our code.
 */
export async function expandPreset(name: PresetName, context: PresetContext): Promise<Expansion> {
  const slow = new Set<string>()
  const found = await presets[name]({ ...context, onSlow: (tool) => slow.add(tool) })
  const configured = new Set(found.hosts)
  if (found.hosts.length === 0 && name !== 'git' && name !== 'model') await checkApart(toolEnv(context))
  const unique = [...new Set([...found.hosts, ...(found.learnt ?? [])])].sort()
  const own = await ownAddresses()
  const placed = await Promise.all(
    unique.map(async (host) => ({ host, pin: await pinOf(host, context, own) })),
  )
  // Whoever wrote the repository wrote its remotes, and whoever answers for a registry says where its files lie: they do
  // not open the user's own machine and network. (escape: preset-answer) And what is on this machine nothing opens but a
  // pin the user writes; by the name localhost no program would use it anyway.
  const leftOut = placed
    .filter(({ host, pin }) => pin !== null && (!configured.has(host) || leadsHome(host, pin, own)))
    .map(({ host }) => host)
  const hosts = placed
    .filter(({ host }) => !leftOut.includes(host))
    .map(({ host, pin }) => (pin === null ? host : `${host}=${pin}`))
  const told = toldOpen(found, new Set(unique.filter((host) => !leftOut.includes(host))))
  if (hosts.length > 0)
    return {
      preset: name,
      hosts,
      ...(leftOut.length > 0 ? { leftOut } : {}),
      ...(told === null ? {} : { told }),
    }
  if (leftOut.length > 0) {
    throw new OrangeryError(
      'egress.own_network',
      `@${name}: it leads only to your own machine or network (${leftOut.join(', ')})`,
      { kind: 'input', hint: 'Only you can open that: --allow-host NAME:PORT=ADDR:PORT' },
    )
  }
  if (slow.size > 0) {
    throw new OrangeryError('egress.slow_tool', `@${name}: ${[...slow].join(', ')} did not answer in time`, {
      kind: 'preflight',
      hint: 'It is there, and was asked for its configuration. Try again, or name the hosts with --allow-host.',
    })
  }
  throw new OrangeryError('egress.empty_preset', `@${name}: no host could be found for it`, {
    kind: 'input',
    hint: hints[name],
  })
}

export type Expansion = {
  readonly preset: PresetName
  readonly hosts: readonly string[]
  /** What it would mean too, and only the user can pin. */
  readonly leftOut?: readonly string[]
  /** How tools inside learn of it: the user's own files, which say so outside, are not there. */
  readonly told?: Told
}

/** Puts hosts in the place of presets, and says which: the user sees them before anything is granted. */
export async function expandOutputs(
  outputs: Outputs,
  context: PresetContext,
): Promise<{ readonly outputs: Outputs; readonly expansions: readonly Expansion[] }> {
  const wanted = (outputs.allow ?? []).map((rule) => ({ rule, preset: presetOf(rule) }))
  if (wanted.every(({ preset }) => preset === null)) return { outputs, expansions: [] }
  const expansions = await Promise.all(
    wanted.flatMap(({ preset }) => (preset === null ? [] : [expandPreset(preset, context)])),
  )
  const granted = expansions.flatMap(({ hosts }) => hosts).map(parseAllowHost)
  const plain = wanted.filter(({ preset }) => preset === null).map(({ rule }) => rule)
  const pins = Object.fromEntries(granted.flatMap(({ pin }) => (pin === undefined ? [] : [pin])))
  return {
    outputs: {
      ...outputs,
      allow: [...new Set([...plain, ...granted.map(({ allow }) => allow)])],
      ...(Object.keys(pins).length > 0 ? { pins: { ...pins, ...outputs.pins } } : {}),
    },
    expansions,
  }
}

const hints: Readonly<Record<PresetName, string>> = {
  npm: 'Install npm, or name the registry with --allow-host.',
  pip: 'Install pip, or name the index with --allow-host.',
  cargo: 'Install cargo, or name the registry with --allow-host.',
  go: 'Install go and set GOPROXY, or name the proxy with --allow-host.',
  maven: 'Install mvn, or name the repository with --allow-host.',
  git: 'The roots have no remote that is reached over a network.',
  model: "The agent's card names no hosts.",
}

const presets: Readonly<Record<PresetName, (context: PresetContext) => Promise<Found>>> = {
  npm,
  pip,
  cargo,
  go,
  maven,
  git,
  model: async ({ cardHosts }) => ({ hosts: cardHosts }),
}

/** A mirror in the user's own network is reached because the user's own tools are configured for it. */
async function pinOf(
  host: string,
  context: PresetContext,
  own: readonly Interface[],
): Promise<string | null> {
  const target = parseAuthority(host, null)
  if (target === null) return null
  const resolve =
    context.resolve ?? (async (name) => (await lookup(name, { all: true })).map(({ address }) => address))
  const addresses = await resolve(target.host).catch(() => [])
  const [first] = addresses
  if (first === undefined || addresses.some((address) => refusedAddress(address, own) === null)) return null
  return showTarget({ host: first, port: target.port })
}

/** Whether a host is this machine itself, or beside every machine. */
const leadsHome = (host: string, pin: string, own: readonly Interface[]): boolean =>
  /(^|\.)localhost(:|$)/.test(host) || isOnlyForPins(parseAuthority(pin, null)?.host ?? '', own)
