import { Fragment } from 'react'
import { Plain } from './Plain.tsx'

type Piece = { readonly at: number; readonly text: string; readonly isPort: boolean }

// Behind a name or a bracket, and not a group of a bare IPv6 address.
const port =
  /(?<=(?:^|[\s,=(])(?:[^\s,=:()[\]]*\.[^\s,=:()[\]]*|\[[^\s\]]*\]|[a-z][a-z0-9-]+)):\d{1,5}(?![\d:])/gi

/** A text with hosts in it, cut where a port begins and where it ends. */
export function portsApart(text: string): Piece[] {
  const pieces: Piece[] = []
  let done = 0
  const take = (end: number, isPort: boolean) => {
    if (end > done) pieces.push({ at: done, text: text.slice(done, end), isPort })
    done = end
  }
  for (const found of text.matchAll(port)) {
    take(found.index, false)
    take(found.index + found[0].length, true)
  }
  take(text.length, false)
  return pieces
}

/** Hosts, where a line may end before a port and never within it: 44 and 3 read as two numbers. */
export const HostsText = ({ children }: { children: string }) =>
  portsApart(children).map(({ at, text, isPort }) =>
    isPort ? (
      <Fragment key={at}>
        <wbr />
        <span className="whitespace-nowrap">
          <Plain>{text}</Plain>
        </span>
      </Fragment>
    ) : (
      <Plain key={at}>{text}</Plain>
    ),
  )
