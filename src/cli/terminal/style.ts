import { styleText } from 'node:util'

type Format = Parameters<typeof styleText>[0]

/** Colours only on a terminal; NO_COLOR and FORCE_COLOR are respected. */
export const paint = (format: Format, text: string): string =>
  styleText(format, text, { stream: process.stdout })

const tones: Readonly<Record<string, Format>> = {
  completed: 'green',
  applied: 'green',
  approve: 'green',
  running: 'cyan',
  starting: 'cyan',
  active: 'cyan',
  review: 'yellow',
  rework: 'yellow',
  timeout: 'yellow',
  cancelled: 'yellow',
  interrupted: 'yellow',
  failed: 'red',
  rejected: 'red',
  reject: 'red',
  preflight_failed: 'red',
  abandoned: 'gray',
}

/** A status, state or decision in the colour it has everywhere. */
export const paintState = (word: string): string => {
  const tone = tones[word]
  return tone === undefined ? word : paint(tone, word)
}
