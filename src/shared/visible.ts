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

const controlNames =
  'NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'
const controlName = controlNames.split(' ')

/** `‹ESC›`, `‹U+202E›`: names, because few typefaces have the symbols that Unicode made for this. */
export function named(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const name = code === 0x7f ? 'DEL' : controlName[code]
  return `‹${name ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`}›`
}

/** Bidirectional and invisible characters made visible; line breaks, tabs and escape sequences are left alone. */
export const showHidden = (text: string): string =>
  text.replaceAll(hiding, (match, emoji: string | undefined) => emoji ?? named(match))

/** For one line: control characters too. */
export const showAll = (text: string): string => showHidden(text).replaceAll(controls, named)

/** For several lines: like one line each, with line breaks and tabs kept. */
export const showLines = (text: string): string =>
  showHidden(text).replaceAll(controls, (character) =>
    character === '\n' || character === '\t' ? character : named(character),
  )
