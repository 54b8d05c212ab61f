import { hostsOf, withoutUser } from './asking.ts'

/** A file of ours that tools inside read. */
export type ToldFile = { readonly name: string; readonly target: string; readonly text: string }

/** What tools inside are told, so that they go where the user's own go. There are no secrets in it. */
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
    urls.filter((url) => hostsOf([url]).some((host) => granted.has(host))).map(withoutUser)
  const told = tell?.(open) ?? { env: {}, files: [] }
  const env = Object.fromEntries(Object.entries(told.env).filter(([, value]) => value !== ''))
  return Object.keys(env).length === 0 && told.files.length === 0 ? null : { env, files: told.files }
}
