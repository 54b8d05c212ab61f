import { useId } from 'react'
import { boundaryLevels, boundaryRank } from '../../shared/boundary.ts'
import { workspaceStrategies } from '../../shared/spec.ts'
import { Segments } from '../design/Segments.tsx'
import { boundaryWords } from '../dispatches/words.ts'
import { Field, FieldMessage, inputLook, markedBy } from './Field.tsx'
import { boundaryOf, hostsOf, placeOf, rootsOf, type SpawnForm, type Troubles } from './form.ts'
import { HostsField } from './HostsField.tsx'
import { WorktreeField } from './WorktreeField.tsx'

const strategyWords = {
  overlay: { label: 'Overlay', detail: 'What it writes lies over your folder, at no cost.' },
  clone: { label: 'Copy', detail: 'A copy of the folder; costs its size where files cannot be shared.' },
  worktree: { label: 'Worktree', detail: 'A branch of its own, from an integration worktree.' },
  none: { label: 'None', detail: 'It writes your real files at once. There is nothing to review.' },
} as const

const amounts = [
  ['Memory in MB', 'memoryMb', 'unlimited'],
  ['CPUs', 'cpus', 'all'],
  ['Processes', 'pids', 'unlimited'],
  ['Disk in MB', 'diskMb', 'unlimited'],
  ['Time in seconds', 'timeoutS', 'no limit'],
] as const

function boundaryHint(form: SpawnForm): string {
  const level = boundaryOf(form)
  const waits = hostsOf(form.hosts).length > 0 && boundaryRank(level) < boundaryRank('network')
  return waits
    ? 'The hosts below stay closed until you widen it.'
    : form.boundary === null && level === 'network'
      ? 'Because hosts are named. Writes still go to its changeset.'
      : boundaryWords[level].detail
}

type MoreFieldsProps = {
  form: SpawnForm
  troubles: Troubles
  onChange(part: Partial<SpawnForm>): void
}

/** What most dispatches leave as it is. */
export function MoreFields({ form, troubles, onChange }: MoreFieldsProps) {
  const base = useId()
  const trouble = (field: keyof Troubles) => {
    const text = troubles[field]
    return text === undefined ? undefined : { text }
  }
  return (
    <div className="mt-3 grid grid-cols-2 gap-x-6 gap-y-4 max-[52rem]:grid-cols-1">
      <Field label="Boundary" hint={boundaryHint(form)}>
        <Segments
          label="Boundary"
          value={boundaryOf(form)}
          onChange={(boundary) => onChange({ boundary })}
          segments={boundaryLevels.map((value) => ({ value, label: boundaryWords[value].label }))}
        />
      </Field>
      {form.invocation === '' && (
        <Field
          label="Workspace"
          hint={
            <span className={form.changeset === 'none' ? 'text-bad' : ''}>
              {strategyWords[form.changeset].detail}
            </span>
          }
        >
          <Segments
            label="Workspace"
            value={form.changeset}
            onChange={(changeset) => onChange({ changeset })}
            segments={workspaceStrategies.map((value) => ({ value, label: strategyWords[value].label }))}
          />
          {form.changeset === 'worktree' && (
            <WorktreeField
              folder={rootsOf(form)[0] ?? ''}
              value={form.worktree}
              onChange={(worktree) => onChange({ worktree })}
            />
          )}
        </Field>
      )}
      <Field label="Hosts it may reach" hint="By name, or what your tools are set to">
        <HostsField
          value={form.hosts}
          agent={form.agent}
          roots={rootsOf(form)}
          place={placeOf(form)}
          trouble={trouble('hosts')}
          onChange={(hosts) => onChange({ hosts })}
        />
      </Field>
      <Field label="Name">
        <input
          aria-label="Name"
          value={form.name}
          onChange={(event) => onChange({ name: event.target.value })}
          placeholder="Taken from the command or prompt"
          className={inputLook}
        />
      </Field>
      <div className="col-span-full grid grid-cols-5 gap-3 max-[52rem]:grid-cols-3">
        {amounts.map(([label, key, placeholder]) => (
          <Field key={key} label={label}>
            <input
              aria-label={label}
              {...markedBy(trouble(key), `${base}-${key}`)}
              inputMode="decimal"
              value={form[key]}
              onChange={(event) => onChange({ [key]: event.target.value })}
              placeholder={placeholder}
              className={`${inputLook} tabular`}
            />
            <FieldMessage id={`${base}-${key}`} trouble={trouble(key)} />
          </Field>
        ))}
      </div>
    </div>
  )
}
