import { CircleAlert, CircleCheck, X } from 'lucide-react'
import { Toast as Radix } from 'radix-ui'
import { useEffect, useRef } from 'react'
import { Plain } from '../text/Plain.tsx'
import { Button } from './Button.tsx'
import { useToasts, type Toast } from './toasts.ts'

const durations = { plain: 6_000, good: 6_000, bad: 12_000 } as const
const readingMs = 70

/** Long enough to read all of it: what went along with an act may take several lines. */
const durationOf = ({ tone, title, detail = '', action }: Toast) =>
  Math.max(action === undefined ? durations[tone] : 12_000, (title.length + detail.length) * readingMs)

/** What must stay in sight has at least the rest of the window. */
const mostOfWindow = 0.4

export function Toaster() {
  const toasts = useToasts((state) => state.toasts)
  const dismiss = useToasts((state) => state.dismiss)
  const measure = useToasts((state) => state.measure)
  const list = useRef<HTMLOListElement>(null)
  useEffect(() => {
    const element = list.current
    if (element === null) return undefined
    const sizes = new ResizeObserver(() => {
      const { top, height } = element.getBoundingClientRect()
      measure(height === 0 ? 0 : Math.min(window.innerHeight - top, window.innerHeight * mostOfWindow))
    })
    sizes.observe(element)
    return () => sizes.disconnect()
  }, [measure])
  return (
    <Radix.Provider swipeDirection="right">
      {toasts.map((toast) => (
        <Radix.Root
          key={toast.id}
          duration={durationOf(toast)}
          onOpenChange={(open) => !open && dismiss(toast.id)}
          type={toast.tone === 'bad' ? 'foreground' : 'background'}
          className="appear flex items-start gap-2.5 rounded-lg bg-raised py-2.5 pr-2 pl-3 shadow-pop"
        >
          {toast.tone === 'bad' && <CircleAlert size={16} className="mt-0.5 shrink-0 text-bad" />}
          {toast.tone === 'good' && <CircleCheck size={16} className="mt-0.5 shrink-0 text-good" />}
          <div className="selectable min-w-0 flex-1 self-center">
            <Radix.Title className="text-base font-medium [overflow-wrap:anywhere]">
              <Plain>{toast.title}</Plain>
            </Radix.Title>
            {toast.detail !== undefined && (
              <Radix.Description className="mt-0.5 text-small text-ink-soft [overflow-wrap:anywhere]">
                <Plain>{toast.detail}</Plain>
              </Radix.Description>
            )}
          </div>
          {toast.action !== undefined && (
            <Radix.Action altText={toast.action.label} asChild>
              <Button size="small" onClick={toast.action.run}>
                {toast.action.label}
              </Button>
            </Radix.Action>
          )}
          <Radix.Close asChild>
            <Button look="quiet" size="small" icon={<X size={14} />} aria-label="Dismiss" />
          </Radix.Close>
        </Radix.Root>
      ))}
      <Radix.Viewport
        ref={list}
        className="fixed right-4 bottom-4 z-60 flex w-96 max-w-[calc(100vw-2rem)] flex-col gap-2 outline-none"
      />
    </Radix.Provider>
  )
}
