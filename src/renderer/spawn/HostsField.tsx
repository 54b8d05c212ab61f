import type { SpawnInput } from '../../shared/api.ts'
import { presetNames, presetOf } from '../../shared/hosts.ts'
import { useAnswer } from '../client/queries.ts'
import { Plain } from '../text/Plain.tsx'
import { ExpansionLine } from './ExpansionLine.tsx'
import { useId } from 'react'
import { FieldMessage, inputLook, markedBy, type FieldTrouble } from './Field.tsx'
import { hostsOf } from './form.ts'

type Where = {
  agent: string
  roots: readonly string[]
  /** What it runs in, if not in the folders themselves. */
  place?: Pick<SpawnInput, 'worktree' | 'invocation'>
}

/** Each asked for on its own: one that means nothing here must not hide what the others mean. */
function Meaning({ rule, agent, roots, place }: Where & { rule: string }) {
  const asked = { rules: [rule], agent, roots: [...roots], ...place }
  const expanded = useAnswer('outputs.expand', asked, { keep: true })
  if (expanded.error !== null)
    return (
      <li className="text-bad">
        <Plain>{expanded.error.message}</Plain>
      </li>
    )
  return expanded.data?.map((expansion) => <ExpansionLine key={expansion.rule} {...expansion} />) ?? null
}

type HostsFieldProps = Where & {
  value: string
  trouble?: FieldTrouble | undefined
  /** A dialog begins here. */
  first?: boolean
  onChange(value: string): void
}

/** Hosts by name, or presets for what the user's own tools are set to, each shown as what it means here. */
export function HostsField({ value, trouble, first = false, onChange, ...where }: HostsFieldProps) {
  const messageId = useId()
  const hosts = hostsOf(value)
  const presets = hosts.filter((host) => presetOf(host) !== null)
  const toggle = (rule: string) =>
    onChange((hosts.includes(rule) ? hosts.filter((host) => host !== rule) : [...hosts, rule]).join(' '))
  return (
    <div className="space-y-1.5">
      <input
        aria-label="Hosts it may reach"
        {...(first ? { 'data-autofocus': true } : {})}
        {...markedBy(trouble, messageId)}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        placeholder="registry.example.com:443 *.example.org"
        spellCheck={false}
        className={`${inputLook} font-mono text-small`}
      />
      <FieldMessage id={messageId} trouble={trouble} />
      <div className="flex flex-wrap gap-1" role="group" aria-label="Presets">
        {presetNames.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={hosts.includes(`@${name}`)}
            onClick={() => toggle(`@${name}`)}
            className="h-6 rounded-md px-1.5 font-mono text-micro text-ink-soft shadow-[0_0_0_1px_var(--line)] hover:bg-hover aria-pressed:bg-accent-wash aria-pressed:text-accent-ink aria-pressed:shadow-[0_0_0_1px_var(--accent-line)]"
          >
            @{name}
          </button>
        ))}
      </div>
      {presets.length > 0 && (
        <ul aria-label="What the presets mean" className="selectable space-y-0.5 text-small text-ink-soft">
          {presets.map((rule) => (
            <Meaning key={rule} rule={rule} {...where} />
          ))}
        </ul>
      )}
    </div>
  )
}
