import { Tooltip } from 'radix-ui'
import type { ReactElement, ReactNode } from 'react'
import { Keys } from './Keys.tsx'

export function Tip({
  text,
  keys,
  side = 'bottom',
  children,
}: {
  text: ReactNode
  keys?: string
  side?: 'top' | 'bottom' | 'left' | 'right'
  children: ReactElement
}) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content
          side={side}
          sideOffset={6}
          collisionPadding={8}
          className="fade z-50 flex max-w-80 items-center gap-2 rounded-md bg-raised px-2 py-1 text-small text-ink shadow-pop"
        >
          {text}
          {keys !== undefined && <Keys>{keys}</Keys>}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}
