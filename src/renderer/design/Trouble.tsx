import { CircleAlert, RefreshCw } from 'lucide-react'
import type { OrangeryError } from '../../shared/errors.ts'
import { Plain } from '../text/Plain.tsx'
import { Button } from './Button.tsx'
import { FixText } from './FixText.tsx'

/** What is shown in the place of an answer that could not be had: what failed, what helps, and the way to ask again. */
export function Trouble({ error, onRetry }: { error: OrangeryError; onRetry(): void }) {
  return (
    <div role="alert" className="flex max-w-lg items-start gap-2.5">
      <CircleAlert size={15} className="mt-0.5 shrink-0 text-bad" />
      <div className="min-w-0 space-y-0.5">
        <p className="selectable font-medium [overflow-wrap:anywhere] first-letter:uppercase">
          <Plain>{error.message}</Plain>
        </p>
        {error.hint !== undefined && (
          <p className="selectable [overflow-wrap:anywhere] text-ink-soft">
            <FixText text={error.hint} />
          </p>
        )}
        <Button size="small" className="mt-2!" icon={<RefreshCw size={12} />} onClick={onRetry}>
          Try again
        </Button>
      </div>
    </div>
  )
}
