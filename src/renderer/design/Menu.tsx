import { DropdownMenu } from 'radix-ui'
import type { ReactElement, ReactNode } from 'react'
import { Keys } from './Keys.tsx'

export function Menu({
  trigger,
  children,
  align = 'end',
}: {
  trigger: ReactElement
  children: ReactNode
  align?: 'start' | 'end'
}) {
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="appear z-50 max-w-[calc(100vw-1rem)] min-w-48 rounded-lg bg-raised p-1 shadow-pop"
        >
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

type MenuItemProps = {
  icon?: ReactNode
  keys?: string
  danger?: boolean
  disabled?: boolean
  onSelect(): void
  children: ReactNode
}

export function MenuItem({
  icon,
  keys,
  danger = false,
  disabled = false,
  onSelect,
  children,
}: MenuItemProps) {
  return (
    <DropdownMenu.Item
      disabled={disabled}
      onSelect={onSelect}
      className={`flex min-h-7 items-center gap-2 rounded-md px-2 py-1 text-base outline-none data-disabled:opacity-45 data-highlighted:bg-hover ${danger ? 'text-bad' : ''}`}
    >
      <span className="inline-flex w-4 shrink-0 justify-center">{icon}</span>
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">{children}</span>
      {keys !== undefined && <Keys>{keys}</Keys>}
    </DropdownMenu.Item>
  )
}

export const MenuLine = () => <DropdownMenu.Separator className="my-1 h-px bg-line" />
