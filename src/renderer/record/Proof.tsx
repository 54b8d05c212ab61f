import { ShieldAlert, ShieldCheck, ShieldQuestionMark } from 'lucide-react'
import type { EventProof } from '../../shared/events.ts'
import { useAnswer } from '../client/queries.ts'
import { Plain } from '../text/Plain.tsx'
import { bytes } from '../text/time.ts'

/** What a crash tore off: it was never a whole line, and it is not lost. */
function tornWords(torn: NonNullable<EventProof['torn']>): string {
  const size = bytes(torn.reduce((sum, each) => sum + each.bytes, 0))
  return torn.length === 1
    ? `a torn end of ${size} was set aside`
    : `${torn.length} torn ends, ${size}, were set aside`
}

/** Whether the log is whole, by its chain of hashes. Asked once it can no longer grow. */
export function Proof({ id }: { id: string }) {
  const proof = useAnswer('dispatch.verify', { id })
  if (proof.error !== null)
    return (
      <p className="flex items-start gap-1.5 text-small text-warn">
        <ShieldQuestionMark size={14} className="mt-0.5 shrink-0" />
        <span className="min-w-0">
          Not proven: <Plain>{proof.error.message}</Plain>
        </span>
      </p>
    )
  if (proof.data === undefined) return null
  const torn = proof.data.torn ?? []
  if (!proof.data.ok)
    return (
      <p className="flex items-start gap-1.5 text-small text-bad">
        <ShieldAlert size={14} className="mt-0.5 shrink-0" />
        <Plain>{proof.data.problem ?? 'The log is damaged.'}</Plain>
      </p>
    )
  if (torn.length > 0)
    return (
      <p
        className="flex items-start gap-1.5 text-small text-warn"
        title={torn.map((each) => each.moved_to).join('\n')}
      >
        <ShieldAlert size={14} className="mt-0.5 shrink-0" />
        <span className="min-w-0">
          Every whole line is proven; <Plain>{tornWords(torn)}</Plain>
        </span>
      </p>
    )
  return (
    <p
      className="flex items-center gap-1.5 text-small text-good"
      title="Each line carries the hash of the one before"
    >
      <ShieldCheck size={14} />
      Log proven whole
    </p>
  )
}
