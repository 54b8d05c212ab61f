import { create } from 'zustand'
import { OrangeryError } from '../../shared/errors.ts'

export type Toast = {
  readonly id: number
  readonly tone: 'plain' | 'good' | 'bad'
  readonly title: string
  readonly detail?: string | undefined
  /** What it speaks of: a later one about the same takes its place, since its action would do another thing by now. */
  readonly about?: string | undefined
  readonly action?: { readonly label: string; run(): void } | undefined
}

type ToastStore = {
  toasts: readonly Toast[]
  /** How much of the window's lower edge they take: what must stay in sight stays above it. */
  height: number
  measure(height: number): void
  show(toast: Omit<Toast, 'id'>): void
  dismiss(id: number): void
}

let nextId = 1
const mostAtOnce = 4

/** What the window has to say in passing. The only state of the window that no query or address holds. */
export const useToasts = create<ToastStore>((set) => ({
  toasts: [],
  height: 0,
  measure: (height) => set({ height }),
  show: (toast) =>
    set(({ toasts }) => {
      const isReplaced = ({ title, detail, about }: Toast) =>
        about === undefined || toast.about === undefined
          ? title === toast.title && detail === toast.detail
          : about === toast.about
      const others = toasts.filter((other) => !isReplaced(other))
      return { toasts: [...others, { ...toast, id: nextId++ }].slice(-mostAtOnce) }
    }),
  dismiss: (id) => set(({ toasts }) => ({ toasts: toasts.filter((toast) => toast.id !== id) })),
}))

export const showToast = (toast: Omit<Toast, 'id'>): void => useToasts.getState().show(toast)

/** About what has landed of a changeset: what was last said of it is what can be undone. */
export const landedToast = (changeset: string): string => `landed ${changeset}`

export function showError(error: unknown): void {
  const title = error instanceof Error ? error.message : String(error)
  const detail = error instanceof OrangeryError ? error.hint : undefined
  showToast({ tone: 'bad', title, detail })
}
