import { z } from 'zod'

const mostDoubleStars = 4

/** What keeps a pattern from meaning anything in a root: hidden by it nothing would be, and nobody would know. */
function faultOf(pattern: string): string | null {
  const parts = pattern.split('/')
  if (pattern.trim() === '') return 'is empty'
  if (pattern.includes('\0')) return 'holds a NUL character, as no path does'
  if (pattern.startsWith('!'))
    return `shows again what others hide, which is not possible; a name with ! is \\!`
  if (parts.includes('..')) return 'leads out by ..: give the path from the root'
  if (parts.every((part) => part === '' || part === '.' || part === '~'))
    return 'names no file in a root; a whole root is hidden by root_modes'
  if (/(?<!\\)\{[^}]*(,|\.\.)[^}]*\}/.test(pattern))
    return String.raw`has braces, which are not expanded: give each pattern by itself (a name with them: \{)`
  if (/[?*+@]\([^)]*\|[^)]*\)/.test(pattern)) return 'lists choices by |: give each pattern by itself'
  if (/^\$(\{|HOME\/|PWD\/)/.test(pattern))
    return 'begins with a variable: give the path, or ~/ for your home'
  if (/(?<!\\)(\\\\)*\\$/.test(pattern)) return 'ends with a backslash, which has nothing to escape'
  if (parts.filter((part) => part === '**').length > mostDoubleStars)
    return `has more than ${mostDoubleStars} times **`
  return null
}

/** How the patterns begin that `faultOf` refuses. */
const refused = [
  String.raw`\s*$`,
  '!',
  String.raw`(?:[\s\S]*/)?\.\.(?:/|$)`,
  '(?:[.~]?/)*[.~]?$',
  String.raw`(?:[\s\S]*[^\\])?\{[^}]*(?:,|\.\.)[^}]*\}`,
  String.raw`[\s\S]*[?*+@]\([^)]*\|[^)]*\)`,
  String.raw`\$(?:\{|HOME/|PWD/)`,
  String.raw`(?:[\s\S]*[^\\])?(?:\\\\)*\\$`,
  String.raw`(?:(?:[^/]*/)*\*\*(?:/|$)){${mostDoubleStars + 1}}`,
]
/** The same for editors, which check a config by the published schema and cannot call us. */
const hideText = String.raw`^${refused.map((start) => `(?!${start})`).join('')}[^\x00]+$`

/** One of `hide`: a glob as in .gitignore. */
export const hidePatternSchema = z
  .string()
  .min(1, { error: '"" is empty', abort: true })
  .check((context) => {
    const fault = faultOf(context.value)
    if (fault === null) return
    const message = `${JSON.stringify(context.value)} ${fault}`
    context.issues.push({ code: 'custom', input: context.value, message })
  })
  .meta({ pattern: hideText })
