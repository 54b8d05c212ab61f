import { useSyncExternalStore } from 'react'

export const dispatchTabs = ['output', 'changes', 'record'] as const
export type DispatchTab = (typeof dispatchTabs)[number]
export const hostTabs = ['isolation', 'settings', 'approvals', 'storage', 'workspaces'] as const
export type HostTab = (typeof hostTabs)[number]

/** Where one is, kept in the address: reloading, going back and links all work. */
export type Route =
  | { readonly page: 'home' }
  | { readonly page: 'host'; readonly tab: HostTab }
  | { readonly page: 'inbox' }
  | { readonly page: 'dispatch'; readonly id: string; readonly tab: DispatchTab | null }

export function parseRoute(hash: string): Route {
  const [page, id, tab] = hash.replace(/^#\/?/, '').split('/')
  if (page === 'computer') return { page: 'host', tab: hostTabs.find((name) => name === id) ?? 'isolation' }
  if (page === 'inbox') return { page: 'inbox' }
  if (page === 'dispatch' && id !== undefined && id !== '') {
    const known = dispatchTabs.find((name) => name === tab)
    return { page: 'dispatch', id: decodeURIComponent(id), tab: known ?? null }
  }
  return { page: 'home' }
}

export function formatRoute(route: Route): string {
  if (route.page === 'host') return route.tab === 'isolation' ? '#/computer' : `#/computer/${route.tab}`
  if (route.page === 'inbox') return '#/inbox'
  if (route.page === 'home') return '#/'
  return `#/dispatch/${encodeURIComponent(route.id)}${route.tab === null ? '' : `/${route.tab}`}`
}

function subscribe(listener: () => void) {
  window.addEventListener('hashchange', listener)
  return () => window.removeEventListener('hashchange', listener)
}

export function useRoute(): Route {
  return parseRoute(useSyncExternalStore(subscribe, () => window.location.hash))
}

export function go(route: Route): void {
  window.location.hash = formatRoute(route)
}
