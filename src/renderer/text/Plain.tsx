import { memo } from 'react'
import { partsOf } from './path.ts'
import { piecesOf } from './visible.ts'

/** Text from outside: always text, never markup, and with nothing hidden in it. */
export const Plain = memo(function Plain({ children }: { children: string }) {
  const pieces = piecesOf(children)
  if (pieces.length === 1 && pieces[0]?.escape === false) return <bdi>{pieces[0].text}</bdi>
  return (
    <bdi>
      {pieces.map((piece) =>
        piece.escape ? (
          <span key={piece.at} className="escape">
            {piece.text}
          </span>
        ) : (
          <span key={piece.at}>{piece.text}</span>
        ),
      )}
    </bdi>
  )
})

/** A path whose end matters most: the folder gives way first, then the name, and its ending never. */
export function PathText({ path, className = '' }: { path: string; className?: string }) {
  const { folder, stem, ending } = partsOf(path)
  // A box narrower than its ellipsis shows a cut letter instead of one.
  const yielding = folder.length > 3 ? 'min-w-[1.6em] shrink-9999 truncate' : 'shrink-0'
  return (
    <span className={`flex min-w-0 ${className}`} title={path}>
      {/* Cut into boxes it would be read out in pieces. */}
      <span className="sr-only select-none">
        <Plain>{path}</Plain>
      </span>
      {folder !== '' && (
        <span aria-hidden className={`text-ink-faint ${yielding}`}>
          <Plain>{folder}</Plain>
        </span>
      )}
      <span aria-hidden className="min-w-0 truncate">
        <Plain>{stem}</Plain>
      </span>
      {ending !== '' && (
        <span aria-hidden className="shrink-0">
          <Plain>{ending}</Plain>
        </span>
      )}
    </span>
  )
}
