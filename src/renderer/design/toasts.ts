import { create } from 'zustand'
import { OrangeryError } from '../../shared/errors.ts'

export type Toast = {
  readonly id: number
  readonly tone: 'plain' | 'good' | 'bad'
  readonly title: string
  readonly detail?: string | undefined
  readonly action?: { readonly label: string; run(): void } | undefined
}

type ToastStore = {
  toasts: readonly Toast[]
  show(toast: Omit<Toast, 'id'>): void
  dismiss(id: number): void
}

let nextId = 1
const mostAtOnce = 4

/** What the window has to say in passing. The only state of the window that no query or address holds. */
export const useToasts = create<ToastStore>((set) => ({
  toasts: [],
  show: (toast) =>
    set(({ toasts }) => {
      const same = toasts.find((other) => other.title === toast.title && other.detail === toast.detail)
      const others = toasts.filter((other) => other !== same)
      return { toasts: [...others, { ...toast, id: nextId++ }].slice(-mostAtOnce) }
    }),
  dismiss: (id) => set(({ toasts }) => ({ toasts: toasts.filter((toast) => toast.id !== id) })),
}))

export const showToast = (toast: Omit<Toast, 'id'>): void => useToasts.getState().show(toast)

export function showError(error: unknown): void {
  const title = error instanceof Error ? error.message : String(error)
  const detail = error instanceof OrangeryError ? error.hint : undefined
  showToast({ tone: 'bad', title, detail })
}
