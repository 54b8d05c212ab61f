import { CircleCheck, Equal, EqualNot, TriangleAlert } from 'lucide-react'
import { useMemo } from 'react'
import { compareSandbox, type ComparedField } from '../../shared/compare.ts'
import { isTerminal, type DispatchDetail } from '../../shared/dispatch.ts'
import { Disclosure } from '../design/Disclosure.tsx'
import { HostsText } from '../text/HostsText.tsx'
import { Plain } from '../text/Plain.tsx'
import { AsGiven } from './AsGiven.tsx'
import { fieldWords, isOwnLine } from './fields.ts'

function Cell({ text, none }: { text: string | null; none: string }) {
  if (text === null) return <span className="font-sans text-ink-faint">{none}</span>
  return (
    <span className="[overflow-wrap:anywhere]">
      <HostsText>{text}</HostsText>
    </span>
  )
}

const keyOf = (field: ComparedField) => field.field + field.effective

/** What the record can say of the sandbox: not yet, what was seen, or nothing: it never ran, or not under us. */
type Stage = 'running' | 'seen' | 'unstarted' | 'unseen'

const heading: Readonly<Record<Stage, string>> = {
  running: 'Effective (still running)',
  seen: 'Effective',
  unstarted: 'Effective (it did not start)',
  unseen: 'Effective (not on record)',
}

const plainly: Readonly<Record<Stage, string>> = {
  running: 'Nothing was requested beyond the defaults, and nothing has been recorded yet.',
  seen: 'Nothing was requested beyond the defaults, and nothing went beyond them.',
  unstarted: 'Nothing was requested beyond the defaults, and it did not start.',
  unseen: 'Nothing was requested beyond the defaults, and no sandbox of it is on record.',
}

function stageOf({ status, sandbox_effective: effective }: DispatchDetail): Stage {
  if (effective !== null) return 'seen'
  if (status === 'preflight_failed') return 'unstarted'
  return isTerminal(status) ? 'unseen' : 'running'
}

function Line({ field, stage }: { field: ComparedField; stage: Stage }) {
  const tone = field.violation !== null ? 'bg-bad-wash' : field.differs ? 'bg-warn-wash' : ''
  const both = field.requested !== null && field.effective !== null
  return (
    <tr
      data-differs={field.differs}
      data-violated={field.violation !== null}
      className={`border-t border-line align-top ${tone}`}
    >
      <th scope="row" className="px-3 py-1.5 font-normal text-ink-soft tight:px-2">
        <Plain>{fieldWords(field.field)}</Plain>
      </th>
      <td className="px-3 py-1.5 font-mono text-small tight:px-2">
        <Cell text={field.requested} none="not asked for" />
      </td>
      <td className="pt-2 text-center">
        {field.differs ? (
          <EqualNot
            size={14}
            strokeWidth={2.25}
            role="img"
            aria-label="differs"
            className={`mx-auto ${field.violation === null ? 'text-warn' : 'text-bad'}`}
          />
        ) : (
          both && <Equal size={13} role="img" aria-label="same" className="mx-auto text-ink-faint" />
        )}
      </td>
      <td className="px-3 py-1.5 font-mono text-small tight:px-2">
        <Cell text={field.effective} none={stage === 'running' ? 'not known yet' : '–'} />
      </td>
    </tr>
  )
}

function Verdict({
  fields,
  stage,
  isPlain,
}: {
  fields: readonly ComparedField[]
  stage: Stage
  /** Nothing was asked for: then that is said instead. */
  isPlain: boolean
}) {
  const broken = fields.filter((field) => field.violation !== null)
  if (broken.length > 0)
    return (
      <ul className="mb-3 rounded-lg bg-bad-wash p-3 text-bad shadow-[inset_0_0_0_1px_var(--bad-line)]">
        {broken.map((field) => (
          <li key={keyOf(field)} className="selectable flex gap-2 [overflow-wrap:anywhere]">
            <TriangleAlert size={15} className="mt-0.5 shrink-0" />
            <span className="min-w-0">
              <Plain>{field.violation ?? ''}</Plain>
            </span>
          </li>
        ))}
      </ul>
    )
  if (stage !== 'seen' || isPlain) return null
  return (
    <p className="mb-3 flex items-center gap-2 text-good">
      <CircleCheck size={15} className="shrink-0" /> Nothing happened beyond what was requested.
    </p>
  )
}

/**
 * Requested beside effective. What nobody asked for and what went as usual is out of the way, and still there for
 * whoever wants it.
 */
export function Comparison({ detail }: { detail: DispatchDetail }) {
  const fields = useMemo(() => compareSandbox(detail), [detail])
  const stage = stageOf(detail)
  // A violation without a setting of its own has nothing to stand beside; it is said above.
  const lines = fields.filter((field) => !isOwnLine(field.field))
  const telling = lines.filter(
    (field) => field.requested !== null || field.differs || field.violation !== null,
  )
  const usual = lines.filter((field) => !telling.includes(field))
  return (
    <section aria-label="Requested and effective">
      <h2 className="mb-2 text-large font-semibold">Requested and effective</h2>
      <Verdict fields={fields} stage={stage} isPlain={telling.length === 0} />
      {telling.length === 0 ? (
        <p className="flex gap-2 text-ink-soft">
          {stage === 'seen' && <CircleCheck size={15} className="mt-0.5 shrink-0 text-good" />}
          {plainly[stage]}
        </p>
      ) : (
        <div className="overflow-hidden rounded-lg shadow-[0_0_0_1px_var(--line)]">
          <table className="selectable w-full table-fixed text-left">
            <thead className="bg-sunken text-micro text-ink-faint">
              <tr>
                <th className="w-34 px-3 py-1.5 font-medium max-[72rem]:w-24 tight:px-2">Setting</th>
                <th className="px-3 py-1.5 font-medium tight:px-2">Requested</th>
                <th className="w-6" aria-label="Same or not" />
                <th className="px-3 py-1.5 font-medium tight:px-2">{heading[stage]}</th>
              </tr>
            </thead>
            <tbody>
              {telling.map((field) => (
                <Line key={keyOf(field)} field={field} stage={stage} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {usual.length > 0 && (
        <Disclosure
          title={usual.length === 1 ? 'One more, as usual' : `${usual.length} more, as usual`}
          className="mt-2"
        >
          <dl className="selectable grid grid-cols-[8.5rem_1fr] gap-x-3 gap-y-1 pl-3 tight:grid-cols-[6rem_1fr]">
            {usual.map((field) => (
              <div key={keyOf(field)} className="contents">
                <dt className="text-ink-faint">
                  <Plain>{fieldWords(field.field)}</Plain>
                </dt>
                <dd className="min-w-0 font-mono text-small [overflow-wrap:anywhere]">
                  <HostsText>{field.effective ?? ''}</HostsText>
                </dd>
              </div>
            ))}
          </dl>
        </Disclosure>
      )}
      {detail.sandbox_spec !== null && <AsGiven id={detail.id} />}
    </section>
  )
}
