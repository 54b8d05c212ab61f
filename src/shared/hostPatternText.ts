/**
 * What `parseHostPattern` reads, as a regular expression: for editors, which check a config by the published schema and
 * cannot call us. It knows no flags, so that both cases are spelt out, and means the same with the flag `u` as without.
 */
const hex = '[0-9A-Fa-f]'
const byte = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'

/** Decimal numbers up to `most`, without leading zeros. */
function decimalsUpTo(most: number): string {
  const digits = String(most)
  const shorter = digits.length > 1 ? [`[1-9]\\d{0,${digits.length - 2}}`] : []
  const alike = [...digits].flatMap((digit, index) => {
    const [least, below] = [index === 0 ? 1 : 0, Number(digit) - 1]
    const rest = digits.length - index - 1
    const tail = rest === 0 ? '' : `\\d{${rest}}`
    return below < least ? [] : [`${digits.slice(0, index)}[${least}-${below}]${tail}`]
  })
  return [...shorter, ...alike, digits].join('|')
}

/** An address may be given in 1 to 4 numbers, the last of which stands for all bytes that are left. */
function numberOf(bytes: number): string {
  const bits = bytes * 8
  const octals = Math.ceil(bits / 3)
  const first = 2 ** (bits - (octals - 1) * 3) - 1
  const octal = `0+(?:[0-${first}][0-7]{${octals - 1}}|[0-7]{0,${octals - 1}})`
  return `(?:0[xX]0*${hex}{0,${bytes * 2}}|${octal}|${decimalsUpTo(2 ** bits - 1)})`
}
const ipv4 = `(?:${[1, 2, 3, 4].map((parts) => `(?:${numberOf(1)}\\.){${parts - 1}}${numberOf(5 - parts)}`).join('|')})\\.?`

const piece = `${hex}{1,4}`
const tailV4 = `${byte}(?:\\.${byte}){3}`
const upTo = (most: number, end: string): string => (most < 0 ? '' : `(?:${piece}:){0,${most}}${end}`)
const compressed = [0, 1, 2, 3, 4, 5, 6, 7].map((left) => {
  const before = left === 0 ? '' : `${piece}(?::${piece}){${left - 1}}`
  const after = [upTo(6 - left, piece), upTo(5 - left, tailV4)].filter((text) => text !== '')
  return `${before}::${after.length === 0 ? '' : `(?:${after.join('|')})?`}`
})
const ipv6 = `(?:(?:${piece}:){7}${piece}|(?:${piece}:){6}${tailV4}|${compressed.join('|')})`

const label = '[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?'
// What ends in a number is an address or nothing.
const notNumber = `(?!(?:\\d+|0[xX]${hex}*)[.\\u3002]?(?::|\\s*$))`
const notTooLong = '(?![^:\\s]{253}(?:[^:\\s.]|\\.[^:\\s]))'
const plainName = `${notTooLong}(?:${label}\\.)*${notNumber}${label}\\.?`
/**
 * What becomes of most other letters a pattern cannot tell: whether a name may have them, together with its others, and how
 * long it is then. So it takes those that always stand for one letter, read from the left (Latin, Greek, Cyrillic, Japanese,
 * Chinese, Korean), in names that are never too long. Any other name can be written as `xn--…`, as we write it ourselves.
 */
const letters = [
  '\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u012f\\u0131\\u0134-\\u013e\\u0141-\\u0148\\u014a-\\u017e',
  '\\u0386\\u0388-\\u038a\\u038c\\u038e-\\u03a1\\u03a3-\\u03ce\\u0400-\\u045f\\u0490\\u0491',
  '\\u3005\\u3041-\\u3096\\u30a1-\\u30fa\\u30fc\\u4e00-\\u9fa5\\uac00-\\ud7a3',
].join('')
const inLabel = `A-Za-z0-9_${letters}`
const dot = '[.\\u3002]'
/** Names of at most `most` characters, none of whose labels has more than `each`. */
function otherNames(most: number, each: number): string {
  const one = `(?![Xx][Nn]--)[${inLabel}](?:[${inLabel}-]{0,${each - 2}}[${inLabel}])?`
  return `(?![^:\\s]{${most + 1}})(?:${one}${dot})*${notNumber}${one}${dot}?`
}
const hasFewLetters = `(?!(?:[^:${letters}]*[${letters}]){4})`
const otherName = `(?=[^:]*[${letters}])(?:${hasFewLetters}${otherNames(200, 40)}|${otherNames(40, 12)})`

const port = `(?!0+\\s*$)(?:[0-5]?\\d{1,4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])`

export const hostPatternText = `^\\s*(?:${ipv6}|(?:\\[${ipv6}\\]|${ipv4}|(?:\\*\\.)?(?:${plainName}|${otherName}))(?::${port})?)\\s*$`
