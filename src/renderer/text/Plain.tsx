import { memo } from 'react'
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

/** A path whose end matters most: the folder gives way first. */
export function PathText({ path, className = '' }: { path: string; className?: string }) {
  const cut = path.lastIndexOf('/') + 1
  return (
    <span className={`flex min-w-0 ${className}`} title={path}>
      <span className="shrink-9999 truncate text-ink-faint">
        <Plain>{path.slice(0, cut)}</Plain>
      </span>
      <span className="min-w-0 truncate">
        <Plain>{path.slice(cut)}</Plain>
      </span>
    </span>
  )
}
