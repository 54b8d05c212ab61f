import { addressOf, hostsOf } from './asking.ts'
import type { Setting } from './remotes.ts'

/** A file of ours that tools inside read. */
export type ToldFile = { readonly name: string; readonly target: string; readonly text: string }

/** What tools inside are told, so that they go where the user's own go: addresses, and no name, password or question. */
export type Told = {
  readonly env: Readonly<Record<string, string>>
  readonly files: readonly ToldFile[]
  /** Settings of git's, which takes them by numbered variables. */
  readonly git?: readonly Setting[]
}

/** What a preset means; `tell` is asked which of the urls, or whether a host, is open. */
export type Found = {
  readonly hosts: readonly string[]
  /** What is not the user's own word: where a server says that its files lie, and what a repository names. */
  readonly learnt?: readonly string[]
  readonly tell?: (open: (urls: readonly string[]) => string[], isOpen: (host: string) => boolean) => Told
}

export const insideFolder = '/run/orangery'

/** What is told of the hosts that are granted, and of no other; null where that is nothing. */
export function toldOpen({ tell }: Found, granted: ReadonlySet<string>): Told | null {
  const open = (urls: readonly string[]) =>
    urls.filter((url) => hostsOf([url]).some((host) => granted.has(host))).map(addressOf)
  const { files, git = [], ...told } = tell?.(open, (host) => granted.has(host)) ?? { env: {}, files: [] }
  const env = Object.fromEntries(Object.entries(told.env).filter(([, value]) => value !== ''))
  if (Object.keys(env).length + files.length + git.length === 0) return null
  return { env, files, ...(git.length > 0 ? { git } : {}) }
}

/**
 * All of it for someone who has yet to decide: variables, and of files every url in full, because a path is part of an
 * address, and only the user knows whether it is a secret, too.
 */
export const toldInWords = ({ env, files, git = [] }: Told): string[] => [
  ...git.map(({ key, value }) => `${key}=${value}`),
  ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
  ...files.map(({ target, text }) => {
    const urls = new Set(text.match(/[a-z][a-z0-9+.-]*:\/\/[^\s'"<>]+/gi) ?? [])
    return [`${target}:`, ...urls].join(' ')
  }),
]
