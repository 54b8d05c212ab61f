import { X } from 'lucide-react'
import { Dialog as Radix } from 'radix-ui'
import type { ReactNode } from 'react'
import { Button } from './Button.tsx'

type ActionsProps = {
  /** What the choice is about, or why it cannot be made yet. */
  note?: ReactNode
  noteTone?: 'plain' | 'warn'
  cancel?: string
  onCancel(): void
  /** The one thing the dialog is for. */
  children: ReactNode
}

/** The foot of a dialog: a word on how things stand, the way out, the way on. */
export function DialogActions({
  note,
  noteTone = 'plain',
  cancel = 'Cancel',
  onCancel,
  children,
}: ActionsProps) {
  return (
    <>
      <span
        className={`min-w-0 flex-1 text-small ${noteTone === 'warn' ? 'text-warn' : 'text-ink-faint'}`}
        role="status"
      >
        {note}
      </span>
      <Button look={cancel === 'Cancel' ? 'quiet' : 'outline'} onClick={onCancel}>
        {cancel}
      </Button>
      {children}
    </>
  )
}

type DialogProps = {
  open: boolean
  onClose(): void
  title: string
  description?: ReactNode
  width?: string
  footer?: ReactNode
  children?: ReactNode
}

export function Dialog({
  open,
  onClose,
  title,
  description,
  width = 'max-w-lg',
  footer,
  children,
}: DialogProps) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fade fixed inset-0 z-40 bg-veil" />
        <Radix.Content
          onOpenAutoFocus={(event) => {
            const dialog = event.currentTarget as HTMLElement
            // Where nothing is asked for, the dialog itself: by default it would be the button that closes it.
            const wanted = dialog.querySelector<HTMLElement>('[data-autofocus]') ?? dialog
            event.preventDefault()
            wanted.focus()
            if (wanted instanceof HTMLInputElement && wanted.dataset['autofocus'] === 'select')
              wanted.select()
          }}
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
          className={`appear fixed top-1/2 left-1/2 z-40 flex max-h-[calc(100vh-2rem)] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col overflow-hidden rounded-xl bg-pane shadow-pop outline-none ${width}`}
        >
          <header className="flex shrink-0 items-start gap-3 px-5 pt-4 pb-3">
            <div className="min-w-0 flex-1">
              <Radix.Title className="text-large font-semibold tracking-tight">{title}</Radix.Title>
              {description !== undefined && (
                <Radix.Description asChild>
                  <div className="mt-0.5 text-base text-ink-soft">{description}</div>
                </Radix.Description>
              )}
            </div>
            <Button
              look="quiet"
              icon={<X size={15} />}
              aria-label="Close"
              onClick={onClose}
              className="-mr-1.5"
            />
          </header>
          {children !== undefined && (
            <div className="-mt-px min-h-0 flex-1 overflow-y-auto px-5 pt-px pb-4">{children}</div>
          )}
          {footer !== undefined && (
            <footer className="flex shrink-0 items-center justify-end gap-2 border-t border-line bg-sunken px-5 py-3">
              {footer}
            </footer>
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}
