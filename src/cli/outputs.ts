import type { Client, SpawnInput } from '../shared/api.ts'
import type { DispatchDetail } from '../shared/dispatch.ts'
import { sandboxEffectiveSchema } from '../shared/effective.ts'
import { presetOf } from '../shared/hosts.ts'
import { parseSandboxSpec } from '../shared/spec.ts'
import { showAll } from '../shared/visible.ts'
import { plural } from './terminal/words.ts'

/** Says what presets mean here before they are granted; on stderr, since stdout belongs to the command. */
export async function tellPresets(client: Client, input: SpawnInput): Promise<void> {
  if (input.sandbox_spec === undefined) return
  const rules = (parseSandboxSpec(input.sandbox_spec).outputs?.allow ?? []).filter(
    (rule) => presetOf(rule) !== null,
  )
  if (rules.length === 0) return
  const asked = { rules, agent: input.agent, roots: [...input.roots] }
  for (const { rule, hosts } of await client.call('outputs.expand', asked)) {
    process.stderr.write(`orangery: ${rule} means ${hosts.map(showAll).join(', ')}\n`)
  }
}

const mostNamed = 5

/**
 * Many programs show only a number where a host was denied (git, ssh, whatever uses SOCKS): who ran them reads here
 * what it was, and how to allow it.
 */
export function tellDenials({ id, sandbox_effective: effective }: DispatchDetail): void {
  const parsed = sandboxEffectiveSchema.safeParse(effective)
  const denied = parsed.success ? parsed.data.network.denied : []
  for (const { host, connections, why } of denied.slice(0, mostNamed)) {
    const times = connections === 1 ? '' : ` (${plural(connections, 'time')})`
    process.stderr.write(`orangery: ${id}: ${showAll(host)} was not reached${times}: ${showAll(why)}\n`)
  }
  const more = denied.length - mostNamed
  if (more > 0) process.stderr.write(`orangery: ${id}: nor were ${plural(more, 'other host')}\n`)
  const missing = denied
    .filter(({ why }) => why === 'not in the list of allowed hosts')
    .map(({ host }) => host)
  if (missing.length === 0) return
  const options = missing.slice(0, mostNamed).map((host) => `--allow-host ${showAll(host)}`)
  process.stderr.write(`  hint: ${options.join(' ')}\n`)
}
