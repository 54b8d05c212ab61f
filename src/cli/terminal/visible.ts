/**
 * Names, paths and diffs are written by whoever the agent listens to. On a terminal, characters that move the
 * cursor, change colours, hide or reorder text are shown as what they are. (escape: terminal-injection)
 */
// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const controls = /[\u0000-\u001f\u007f-\u009f]/g
const hiders = new RegExp(
  String.raw`[\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f` +
    String.raw`\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]`,
  'gu',
)

const named = (character: string) =>
  `‹U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}›`

function pictured(character: string): string {
  const code = character.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  return code === 0x7f ? '\u2421' : named(character)
}

/** For text of one line: whatever is in it, it stays one line and does nothing to the terminal. */
export const showLine = (text: string): string => text.replace(hiders, named).replace(controls, pictured)

/** For text of many lines: line breaks and tabs keep their meaning. */
export const showLines = (text: string): string =>
  text
    .replace(hiders, named)
    .replace(controls, (character) =>
      character === '\n' || character === '\t' ? character : pictured(character),
    )
