import { useAnswer } from '../client/queries.ts'
import { Disclosure } from '../design/Disclosure.tsx'
import { Plain } from '../text/Plain.tsx'

/** The spec byte for byte: read as JSON, large numbers and fields given twice would come out as others. */
export function AsGiven({ id }: { id: string }) {
  const text = useAnswer('dispatch.spec', { id }).data?.text ?? null
  if (text === null) return null
  return (
    <Disclosure title="The request as it was given" className="mt-2">
      <pre className="selectable max-h-96 overflow-auto rounded-lg bg-sunken px-3 py-2 font-mono text-micro [overflow-wrap:anywhere] whitespace-pre-wrap shadow-[inset_0_0_0_1px_var(--line)]">
        <Plain>{text}</Plain>
      </pre>
    </Disclosure>
  )
}
