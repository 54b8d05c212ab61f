import { addressOf, hostsOf } from './asking.ts'

/** A file of ours that tools inside read. */
export type ToldFile = { readonly name: string; readonly target: string; readonly text: string }

/** What tools inside are told, so that they go where the user's own go: addresses, and no name, password or question. */
export type Told = { readonly env: Readonly<Record<string, string>>; readonly files: readonly ToldFile[] }

/** What a preset means; `tell` is asked which of the urls are open. */
export type Found = {
  readonly hosts: readonly string[]
  /** What a server answered, over the network, when it was asked where its files lie. */
  readonly learnt?: readonly string[]
  readonly tell?: (open: (urls: readonly string[]) => string[]) => Told
}

export const insideFolder = '/run/orangery'

/** What is told of the hosts that are granted, and of no other; null where that is nothing. */
export function toldOpen({ tell }: Found, granted: ReadonlySet<string>): Told | null {
  const open = (urls: readonly string[]) =>
    urls.filter((url) => hostsOf([url]).some((host) => granted.has(host))).map(addressOf)
  const told = tell?.(open) ?? { env: {}, files: [] }
  const env = Object.fromEntries(Object.entries(told.env).filter(([, value]) => value !== ''))
  return Object.keys(env).length === 0 && told.files.length === 0 ? null : { env, files: told.files }
}

/**
 * All of it for someone who has yet to decide: variables, and of files every url in full, because a path is part of an
 * address, and only the user knows whether it is a secret, too.
 */
export const toldInWords = ({ env, files }: Told): string[] => [
  ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
  ...files.map(({ target, text }) => {
    const urls = new Set(text.match(/[a-z][a-z0-9+.-]*:\/\/[^\s'"<>]+/gi) ?? [])
    return [`${target}:`, ...urls].join(' ')
  }),
]
