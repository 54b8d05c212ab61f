import { useSyncExternalStore } from 'react'

export type ThemeChoice = 'system' | 'light' | 'dark'
const storageKey = 'orangery.theme'
const system = () => window.matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

const isChoice = (text: string | null): text is ThemeChoice =>
  text === 'system' || text === 'light' || text === 'dark'

export function themeChoice(): ThemeChoice {
  const stored = localStorage.getItem(storageKey)
  return isChoice(stored) ? stored : 'system'
}

export function shownTheme(): 'light' | 'dark' {
  const choice = themeChoice()
  if (choice !== 'system') return choice
  return system().matches ? 'dark' : 'light'
}

export function applyTheme(): void {
  const choice = themeChoice()
  if (choice === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = choice
  for (const listener of listeners) listener()
}

export function chooseTheme(choice: ThemeChoice): void {
  localStorage.setItem(storageKey, choice)
  applyTheme()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  const query = system()
  query.addEventListener('change', listener)
  return () => {
    listeners.delete(listener)
    query.removeEventListener('change', listener)
  }
}

export const useThemeChoice = (): ThemeChoice => useSyncExternalStore(subscribe, themeChoice)
export const useShownTheme = (): 'light' | 'dark' => useSyncExternalStore(subscribe, shownTheme)
