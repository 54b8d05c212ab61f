import { CornerDownLeft } from 'lucide-react'
import type { AgentCard } from '../../shared/card.ts'
import { Plain } from '../text/Plain.tsx'
import { commandOf } from './command.ts'
import { Field, inputLook } from './Field.tsx'
import type { SpawnForm } from './form.ts'

const examples = ['npm test', 'make check', "git grep -l colour | xargs sed -i 's/colour/color/g'"] as const
const offered = 3

type TaskFieldProps = {
  form: SpawnForm
  agents: readonly AgentCard[]
  recent: readonly string[]
  focus: boolean
  onChange(part: Partial<SpawnForm>): void
}

/** Lines to start from: what ran before, or where nothing has, what could. */
function Offers({ form, recent, onChange }: Pick<TaskFieldProps, 'form' | 'recent' | 'onChange'>) {
  const others = recent.filter((line) => line !== form.command).slice(0, offered)
  const isExample = recent.length === 0
  const lines = isExample ? examples.filter((line) => line !== form.command) : others
  if (lines.length === 0) return null
  return (
    <div
      className="flex min-w-0 flex-wrap items-center gap-1"
      role="group"
      aria-label={isExample ? 'Examples' : 'Recent commands'}
    >
      <span className="mr-0.5 text-small text-ink-faint">{isExample ? 'For example' : 'Recent'}</span>
      {lines.map((line) => (
        <button
          key={line}
          type="button"
          title={line}
          onClick={() => onChange({ command: line })}
          className="h-6 max-w-60 truncate rounded-md px-1.5 font-mono text-micro text-ink-soft shadow-[0_0_0_1px_var(--line)] hover:bg-hover hover:text-ink"
        >
          <Plain>{line}</Plain>
        </button>
      ))}
    </div>
  )
}

/** What runs: a command as one types it, or an agent and what it shall do. */
export function TaskField({ form, agents, recent, focus, onChange }: TaskFieldProps) {
  const own = form.agent === 'command'
  const words = commandOf(form.command)
  const byShell = own && words[0] === 'sh' && words[1] === '-c'
  return (
    <Field label={own ? 'Command' : 'Agent'}>
      <div className="space-y-2">
        {agents.length > 0 && (
          <div className="flex flex-wrap gap-1.5" role="group" aria-label="Agent">
            {[{ id: 'command', name: 'A command' }, ...agents].map((card) => (
              <button
                key={card.id}
                type="button"
                aria-pressed={form.agent === card.id}
                onClick={() => onChange({ agent: card.id })}
                className="h-7 rounded-md px-2.5 text-small text-ink-soft shadow-[0_0_0_1px_var(--line-strong)] hover:bg-hover aria-pressed:bg-accent-wash aria-pressed:font-medium aria-pressed:text-accent-ink aria-pressed:shadow-[0_0_0_1.5px_var(--accent)]"
              >
                <Plain>{card.name}</Plain>
              </button>
            ))}
          </div>
        )}
        {own ? (
          <>
            <input
              aria-label="Command"
              data-autofocus={focus ? 'select' : undefined}
              value={form.command}
              onChange={(event) => onChange({ command: event.target.value })}
              placeholder="npm test"
              spellCheck={false}
              autoComplete="off"
              className={`${inputLook} font-mono text-small`}
            />
            {byShell && (
              <p className="flex items-center gap-1.5 text-small text-ink-faint">
                <CornerDownLeft size={13} className="shrink-0 -scale-x-100" />
                There is more in it than words, so a shell runs it.
              </p>
            )}
            <Offers form={form} recent={recent} onChange={onChange} />
          </>
        ) : (
          <textarea
            aria-label="Prompt"
            rows={3}
            value={form.prompt}
            onChange={(event) => onChange({ prompt: event.target.value })}
            placeholder="Make coupons work in the cart. Keep the tests green, and add one for expired coupons."
            className={`${inputLook} h-auto resize-y py-2`}
          />
        )}
      </div>
    </Field>
  )
}
