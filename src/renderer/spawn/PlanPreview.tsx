import { Disclosure } from '../design/Disclosure.tsx'
import { PlanList } from '../record/PlanList.tsx'
import { planLines } from '../record/planLines.ts'

/** What the sandbox would be made of, before anything starts. */
export function PlanPreview({ text }: { text: string }) {
  const lines = planLines(text)
  return (
    <Disclosure title={`The sandbox it would get, ${lines.length} lines`}>
      <PlanList lines={lines} />
    </Disclosure>
  )
}
