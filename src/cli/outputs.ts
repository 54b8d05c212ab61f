import type { Client, SpawnInput } from '../shared/api.ts'
import type { DispatchDetail } from '../shared/dispatch.ts'
import { sandboxEffectiveSchema } from '../shared/effective.ts'
import { parseHostPattern, presetOf, type PresetExpansion } from '../shared/hosts.ts'
import { PerMinute } from '../shared/perMinute.ts'
import { parseSandboxSpec } from '../shared/spec.ts'
import { showAll } from '../shared/visible.ts'
import { plural } from './terminal/words.ts'

/** Says what presets mean here before they are granted; on stderr, since stdout belongs to the command. */
export async function tellPresets(client: Client, input: SpawnInput): Promise<void> {
  if (input.sandbox_spec === undefined) return
  const { outputs, changeset } = parseSandboxSpec(input.sandbox_spec)
  const rules = (outputs?.allow ?? []).filter((rule) => presetOf(rule) !== null)
  if (rules.length === 0) return
  const { agent, roots, worktree, invocation } = input
  const asked = { rules, agent, roots, worktree, invocation, changeset }
  tellExpansions(await client.call('outputs.expand', asked))
}

export function tellExpansions(expansions: readonly PresetExpansion[]): void {
  for (const { rule, hosts, left_out: leftOut = [], told = [] } of expansions) {
    process.stderr.write(`orangery: ${rule} means ${hosts.map(showAll).join(', ')}\n`)
    if (told.length > 0)
      process.stderr.write(`orangery: ${rule}: tools inside are told ${told.map(showAll).join(', ')}\n`)
    if (leftOut.length === 0) continue
    const named = leftOut.map(showAll).join(', ')
    process.stderr.write(
      `orangery: ${rule} leaves out ${named}: only a pin of yours opens your own machine or network\n` +
        '  hint: --allow-host NAME:PORT=ADDR:PORT\n',
    )
  }
}

/** At the end; while it runs each is named as it is refused. */
const mostNamed = 5
/** As of every other program that is told: who is refused a thousand times a minute must not fill a log. */
const mostLines = 60

/**
 * Many programs show only a number where a host was denied (curl and git over https, cargo, whatever uses SOCKS): who
 * ran them reads here what it was, as soon as it happens, and at the end how to allow it.
 */
export class Denials {
  readonly #told = new Set<string>()
  readonly #lines = new PerMinute(mostLines)

  /**
   * Each time, since the program that tries a host again may be another, and is told by nobody else. On a terminal nothing
   * is said before the end: the screen is the command's.
   */
  tell(id: string, { host, why }: { readonly host: string; readonly why: string }): void {
    if (!this.#lines.take()) return
    this.#told.add(host)
    process.stderr.write(`orangery: ${id}: ${showAll(host)} was not reached: ${showAll(why)}\n`)
  }

  sumUp({ id, sandbox_effective: effective }: DispatchDetail): void {
    const parsed = sandboxEffectiveSchema.safeParse(effective)
    const { denied, allowed } = parsed.success ? parsed.data.network : { denied: [], allowed: [] }
    const untold = denied.filter(({ host }) => !this.#told.has(host))
    for (const { host, why } of untold.slice(0, mostNamed)) this.tell(id, { host, why })
    const more = denied.filter(({ host }) => !this.#told.has(host)).length
    if (more > 0) process.stderr.write(`orangery: ${id}: nor were ${plural(more, 'other host')}\n`)
    const reached = new Set(allowed.map(({ host }) => host))
    const missing = denied.filter(
      ({ host, why }) =>
        !reached.has(host) &&
        /^(not in the list|the list of allowed|outputs are none)/.test(why) &&
        // What the policy leaves no room for no option opens.
        !why.includes('; The policy allows '),
    )
    if (missing.length === 0) return
    // Where only the kernel heard of it, nobody knows which host it was.
    const named = missing.map(({ host }) => (parseHostPattern(host) === undefined ? 'HOST' : showAll(host)))
    const options = [...new Set(named)].slice(0, mostNamed).map((host) => `--allow-host ${host}`)
    process.stderr.write(
      `  hint: ${options.join(' ')}, or answer while it runs: orangery boundary inbox --follow\n`,
    )
  }
}
