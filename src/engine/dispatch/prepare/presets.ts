import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import type { Received } from '../../../shared/api.ts'
import type { AgentCard } from '../../../shared/card.ts'
import type { CheckResult } from '../../../shared/doctor.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { parseHostPattern, presetOf, type PresetExpansion } from '../../../shared/hosts.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { parseSandboxSpec, type Outputs, type SandboxSpec } from '../../../shared/spec.ts'
import { findCard } from '../../agents/index.ts'
import {
  expandOutputs,
  findOwnPlace,
  isSandboxItself,
  parseOutputs,
  toldInWords,
  type Expansion,
  type Told,
} from '../../egress/index.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import type { StoredDispatch } from '../../store/index.ts'
import type { Parts } from '../parts.ts'
import { placeIn, placeOf } from './place.ts'

type Expanded = { readonly outputs: Outputs; readonly expansions: readonly Expansion[] }

/** What was shown is what is granted, when it follows at once; and nobody waits for the same tools twice. */
const keepMs = 30_000
const kept = new WeakMap<Parts, Map<string, { readonly answer: Promise<Expanded>; readonly until: number }>>()

function expand(
  parts: Parts,
  outputs: Outputs,
  card: AgentCard,
  roots: readonly string[],
): Promise<Expanded> {
  const known = kept.get(parts) ?? new Map()
  kept.set(parts, known)
  for (const [key, { until }] of known) if (until < Date.now()) known.delete(key)
  const key = JSON.stringify([outputs, card.id, roots])
  const found = known.get(key)
  if (found !== undefined) return found.answer
  const cardHosts = card.sandboxRequirements.hosts
  const answer = expandOutputs(outputs, { home: homedir(), env: process.env, roots, cardHosts })
  answer.catch(() => known.delete(key))
  known.set(key, { answer, until: Date.now() + keepMs })
  return answer
}

/** The spec as drivers act on it, with hosts in the place of presets; what the caller wrote stays on record. */
export async function withPresets(
  parts: Parts,
  spec: SandboxSpec | null,
  card: AgentCard,
  roots: readonly string[],
): Promise<{ readonly spec: SandboxSpec | null; readonly expansions: readonly Expansion[] }> {
  if (spec?.outputs === undefined) return { spec, expansions: [] }
  const { allow: given = [] } = spec.outputs
  // As the broker will read them: what it cannot is found out before anything is made.
  parseOutputs({ ...spec.outputs, allow: given.filter((rule) => presetOf(rule) === null) })
  refuseLocalhost(Object.keys(spec.outputs.pins ?? {}))
  refuseUnopened(given, spec.outputs.pins)
  const presets = (spec.outputs.allow ?? []).filter((rule) => presetOf(rule) !== null)
  if (presets.length === 0) return { spec, expansions: [] }
  const others = (spec.outputs.allow ?? []).filter((rule) => presetOf(rule) === null)
  const { outputs, expansions } = await expand(parts, { allow: presets }, card, spec.roots ?? roots)
  const allow = [...new Set([...others, ...(outputs.allow ?? [])])]
  const pins = { ...outputs.pins, ...spec.outputs.pins }
  const written = { ...spec.outputs, allow, ...(Object.keys(pins).length > 0 ? { pins } : {}) }
  return { spec: { ...spec, outputs: written }, expansions }
}

/** It would never be used, and the program inside would find nobody without a word from us. */
function refuseLocalhost(pinned: readonly string[]): void {
  const hostOf = (pin: string) => (parseHostPattern(pin)?.host ?? '').replace(/^\[|\]$/g, '')
  const name = pinned.find((pin) => isSandboxItself(hostOf(pin)))
  if (name === undefined) return
  const what = isIP(hostOf(name)) === 0 ? hostOf(name) : 'a loopback address'
  throw new OrangeryError('spec.localhost_pin', `${name}: a pin on ${what} is never used`, {
    kind: 'input',
    hint: `Programs take ${hostOf(name)} for the sandbox itself. Use another name: --allow-host db.test:5432=127.0.0.1:5432`,
  })
}

/** It would be allowed and never reached, and the program inside would find nobody without a word from us. */
function refuseUnopened(allow: readonly string[], pins: Outputs['pins'] = {}): void {
  const found = findOwnPlace(allow, pins)
  if (found === null) return
  throw new OrangeryError('spec.own_place', `${found.text} would never be reached: ${found.why}`, {
    kind: 'input',
    hint: 'Give it a name and say where that leads: --allow-host db.test:5432=127.0.0.1:5432',
  })
}

/** What presets mean, for someone who has yet to decide: in the folders that the agent will have, which others may name. */
export async function expandRules(
  parts: Parts,
  {
    rules,
    agent,
    changeset,
    ...request
  }: Omit<Received<'outputs.expand'>, 'rules'> & { readonly rules: readonly string[] },
): Promise<PresetExpansion[]> {
  const presets = rules.filter((rule) => presetOf(rule) !== null)
  if (presets.length === 0) return []
  const card = await findCard(parts.configDir, agent)
  const { roots } = await placeOf(parts, request, { changeset })
  const places = roots.map((root) => resolve(root))
  const { expansions } = await expand(parts, { allow: presets }, card, places)
  return expansions.map(inWords)
}

const inWords = ({ preset, hosts, leftOut, told }: Expansion): PresetExpansion => ({
  rule: `@${preset}`,
  hosts: [...hosts],
  ...(told === undefined ? {} : { told: toldInWords(told) }),
  ...(leftOut === undefined ? {} : { left_out: [...leftOut] }),
})

/** What the presets of a dispatch that ran mean now, for the next turn in its place. */
export async function expandAgain(
  parts: Parts,
  { agent, sandboxSpecText }: Pick<StoredDispatch, 'agent' | 'sandboxSpecText'>,
  invocation: InvocationMeta,
): Promise<PresetExpansion[]> {
  const spec = sandboxSpecText === null ? null : parseSandboxSpec(sandboxSpecText)
  const card = await findCard(parts.configDir, agent)
  const roots = placeIn(invocation).roots.map((root) => resolve(root))
  return (await withPresets(parts, spec, card, roots)).expansions.map(inWords)
}

/** Hosts to take back, with presets spelled out: where a pin leads is of no interest then. */
export async function takenInFull(
  parts: Parts,
  id: DispatchId,
  rules: readonly string[],
): Promise<readonly string[]> {
  const { agent, roots } = parts.store.dispatches.get(id)
  const expansions = await expandRules(parts, { rules, agent, roots })
  return spelledOut(rules, expansions).map((rule) => rule.split('=', 1)[0] ?? rule)
}

const spelledOut = (rules: readonly string[], expansions: readonly PresetExpansion[]): string[] => [
  ...rules.filter((rule) => presetOf(rule) === null),
  ...expansions.flatMap(({ hosts }) => hosts),
]

/**
 * The hosts of a request with presets spelled out, so that it shows, and grants, what they mean now. What leads into
 * the user's own network only a spawn can name: that takes a pin.
 */
export async function hostsInFull(
  parts: Parts,
  id: DispatchId,
  rules: readonly string[],
): Promise<readonly string[]> {
  const { agent, roots } = parts.store.dispatches.get(id)
  const expansions = await expandRules(parts, { rules, agent, roots })
  for (const { rule, hosts } of expansions) {
    const pinned = hosts.find((host) => host.includes('='))
    if (pinned === undefined) continue
    throw new OrangeryError('boundary.pinned_preset', `${rule}: it leads into your own network (${pinned})`, {
      kind: 'input',
      hint: `Only a spawn can allow that: --allow-host ${rule}`,
    })
  }
  return spelledOut(rules, expansions)
}

/** What all of them are told together. */
export function toldBy(expansions: readonly Expansion[]): Told {
  const told = expansions.flatMap((expansion) => expansion.told ?? [])
  return {
    env: Object.assign({}, ...told.map(({ env }) => env)) as Record<string, string>,
    files: told.flatMap(({ files }) => files),
    git: told.flatMap(({ git = [] }) => git),
  }
}

/** What each preset means here, in the report that everyone sees before anything starts. */
export const presetChecks = (expansions: readonly Expansion[]): CheckResult[] =>
  expansions.map(({ preset, hosts, leftOut = [], told }) => {
    const left = leftOut.length > 0 ? `; not ${leftOut.join(', ')}, in your own network` : ''
    const said = told === undefined ? '' : `; tools inside are told: ${toldInWords(told).join(', ')}`
    return {
      name: 'outputs',
      ok: true,
      detail: `@${preset} means ${hosts.join(', ')}${left}${said}`,
      fix: null,
    }
  })
