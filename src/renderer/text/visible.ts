import { showAll } from '../../shared/visible.ts'

export { named, showAll, showHidden } from '../../shared/visible.ts'

export type Piece = { readonly at: number; readonly text: string; readonly escape: boolean }

const marks = /(‹(?:U\+[0-9A-F]{4,6}|[A-Z][A-Z0-9]{1,2})›)/

/** The text cut into what may be shown as it is and what must be marked as an escape. */
export function piecesOf(text: string): readonly Piece[] {
  const pieces: Piece[] = []
  let at = 0
  for (const part of showAll(text).split(marks)) {
    if (part !== '') pieces.push({ at, text: part, escape: marks.test(part) })
    at += part.length
  }
  return pieces
}
