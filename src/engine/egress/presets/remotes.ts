import { parseAuthority, showTarget } from '../rules/names.ts'
import { addressOf } from './asking.ts'

export type Setting = { readonly key: string; readonly value: string }

/** Where git goes for a remote, and what of the user's own configuration sent it there. */
export type Remote = {
  readonly url: string
  readonly sentBy: (Setting & { readonly base: string }) | null
}

/** What `git config -z --get-regexp` prints. */
export const settingsOf = (text: string): Setting[] =>
  text
    .split('\0')
    .filter((entry) => entry.includes('\n'))
    .map((entry) => {
      const at = entry.indexOf('\n')
      return { key: entry.slice(0, at), value: entry.slice(at + 1) }
    })

/** Where git would fetch from and push to, with the longest `insteadOf` in the place of what it stands for. */
export function remotesOf(own: readonly Setting[], repository: readonly Setting[]): Remote[] {
  const settings = [...own, ...repository]
  const rewrite = (url: string, kind: 'insteadof' | 'pushinsteadof'): Remote | null => {
    const [best] = settings
      .filter(({ key, value }) => key.startsWith('url.') && key.endsWith(`.${kind}`) && url.startsWith(value))
      .sort((a, b) => b.value.length - a.value.length)
    if (best === undefined) return null
    const base = best.key.slice('url.'.length, -kind.length - 1)
    return {
      url: base + url.slice(best.value.length),
      sentBy: own.includes(best) ? { ...best, base } : null,
    }
  }
  return settings
    .filter(({ key }) => /^remote\..*\.(push)?url$/.test(key))
    .flatMap(({ key, value }) => {
      const pushed = key.endsWith('.url') ? rewrite(value, 'pushinsteadof') : null
      const fetched = rewrite(value, 'insteadof') ?? { url: value, sentBy: null }
      return [fetched, ...(pushed === null ? [] : [pushed])]
    })
}

/** Whether the user named the host, and not the repository by what follows. */
export const namesHost = (base: string): boolean =>
  /^[a-z][a-z0-9+.-]*:\/\/[^/]+\//i.test(base) || sshHostOf(base) !== null

/** To ssh a name is part of the way there; a password is a secret to all. */
const sayable = (url: string): string =>
  /^[a-z+]*ssh[a-z+]*:/i.test(url) ? url.replace(/^([a-z+]+:\/\/[^/@:]*):[^/]*@/i, '$1@') : addressOf(url)

/**
 * The setting as git inside is told it. Null where that would not lead where the user's own leads, or where what it stands
 * for has a password in it. (escape: token-in-a-registry-url)
 */
export function toldSetting({ url, sentBy }: Remote): Setting | null {
  if (sentBy === null || sayable(sentBy.value) !== sentBy.value) return null
  const { key, value, base } = sentBy
  const said = sayable(base)
  if (said + url.slice(base.length) !== sayable(url)) return null
  const kind = key.endsWith('.pushinsteadof') ? 'pushInsteadOf' : 'insteadOf'
  return { key: `url.${said}.${kind}`, value }
}

const remoteHelper = /^[a-z0-9+-]+::/i

/** `host:path`, `user@host:path`, `[host:port]:path`: git's ways of saying ssh. Null for a path or a url. */
export function sshHostOf(text: string): string | null {
  if (remoteHelper.test(text)) return null
  const bracketed = /^(?:[^@/:[]+@)?\[(?:[^@/\]]+@)?([^@/\]]+)\]:(?!\/\/)/.exec(text)
  const plain = /^(?:[^@/:[]+@)?([^@/:[]+):(?!\/\/)/.exec(text)
  const target = parseAuthority((bracketed ?? plain)?.[1] ?? '', 22)
  return target === null ? null : showTarget(target)
}
