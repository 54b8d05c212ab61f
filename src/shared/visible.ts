/**
 * Names, paths, diffs and output are written by whoever the agent listens to. Characters that hide, reorder or
 * imitate text are shown as what they are: `‹U+202E›` cannot make `gpj.exe` look like `exe.jpg`.
 */
// An emoji may carry its variation selector and joiners; anywhere else these hide something.
const emoji = String.raw`\p{Extended_Pictographic}\ufe0f?(?:\u200d\p{Extended_Pictographic}\ufe0f?)*`
const hiders =
  String.raw`[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f` +
  String.raw`\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]`
const hiding = new RegExp(`(${emoji})|${hiders}`, 'gu')
// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const controls = /[\u0000-\u001f\u007f-\u009f]/g

const named = (character: string) =>
  `‹U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`

/** Control characters become the symbols made for showing them; those without a symbol are named. */
function pictured(character: string): string {
  const code = character.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  return code === 0x7f ? '\u2421' : named(character)
}

/** Bidirectional and invisible characters made visible; line breaks, tabs and escape sequences are left alone. */
export const showHidden = (text: string): string =>
  text.replaceAll(hiding, (match, emoji: string | undefined) => emoji ?? named(match))

/** For one line: control characters too. */
export const showAll = (text: string): string => showHidden(text).replaceAll(controls, pictured)

/** For several lines: like one line each, with line breaks and tabs kept. */
export const showLines = (text: string): string =>
  showHidden(text).replaceAll(controls, (character) =>
    character === '\n' || character === '\t' ? character : pictured(character),
  )
