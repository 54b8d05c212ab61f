import { ShieldAlert, ShieldCheck } from 'lucide-react'
import { useAnswer } from '../client/queries.ts'
import { Plain } from '../text/Plain.tsx'

/** Whether the log is whole, by its chain of hashes. Asked once it can no longer grow. */
export function Proof({ id }: { id: string }) {
  const proof = useAnswer('dispatch.verify', { id })
  if (proof.data === undefined) return null
  return proof.data.ok ? (
    <p
      className="flex items-center gap-1.5 text-small text-good"
      title="Each line carries the hash of the one before"
    >
      <ShieldCheck size={14} />
      Log proven whole
    </p>
  ) : (
    <p className="flex items-start gap-1.5 text-small text-bad">
      <ShieldAlert size={14} className="mt-0.5 shrink-0" />
      <Plain>{proof.data.problem ?? 'The log is damaged.'}</Plain>
    </p>
  )
}
