import { parseAuthority, showTarget } from '../names.ts'

type Setting = { readonly key: string; readonly value: string }

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
export function remoteUrls(settings: readonly Setting[]): string[] {
  const rewrite = (url: string, kind: 'insteadof' | 'pushinsteadof') => {
    const [best] = settings
      .filter(({ key, value }) => key.startsWith('url.') && key.endsWith(`.${kind}`) && url.startsWith(value))
      .sort((a, b) => b.value.length - a.value.length)
    return best === undefined
      ? null
      : best.key.slice('url.'.length, -kind.length - 1) + url.slice(best.value.length)
  }
  return settings
    .filter(({ key }) => /^remote\..*\.(push)?url$/.test(key))
    .flatMap(({ key, value }) => {
      const pushed = key.endsWith('.url') ? rewrite(value, 'pushinsteadof') : null
      return [rewrite(value, 'insteadof') ?? value, ...(pushed === null ? [] : [pushed])]
    })
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
