import { hostsOf } from './asking.ts'

/** A file of ours that tools inside read. */
export type ToldFile = { readonly name: string; readonly target: string; readonly text: string }

/** What tools inside are told, so that they go where the user's own go. There are no secrets in it. */
export type Told = { readonly env: Readonly<Record<string, string>>; readonly files: readonly ToldFile[] }

/** What a preset means; `tell` is asked which of the urls are open. */
export type Found = {
  readonly hosts: readonly string[]
  readonly tell?: (open: (urls: readonly string[]) => string[]) => Told
}

export const insideFolder = '/run/orangery'

/** A name and password in a url are the broker's to put in, if anybody's: the agent must not see them. */
export const withoutUser = (url: string): string => url.replace(/^([a-z+]+:\/\/)[^/@]*@/i, '$1')

/** What is told of the hosts that are granted, and of no other; null where that is nothing. */
export function toldOpen({ tell }: Found, granted: ReadonlySet<string>): Told | null {
  const open = (urls: readonly string[]) =>
    urls.filter((url) => hostsOf([url]).some((host) => granted.has(host))).map(withoutUser)
  const told = tell?.(open) ?? { env: {}, files: [] }
  const env = Object.fromEntries(Object.entries(told.env).filter(([, value]) => value !== ''))
  return Object.keys(env).length === 0 && told.files.length === 0 ? null : { env, files: told.files }
}
