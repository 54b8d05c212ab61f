import type { Transition } from '../../../shared/changeset.ts'
import type { CommentRecord } from '../../base/changesetRecords.ts'
import { toText } from '../bytePath.ts'
import { entryKey } from '../manifest.ts'
import type { PatchHunk } from './patch.ts'
import { isAbout } from './anchors.ts'
import type { Decisions } from './decisions.ts'
import type { FileView, View } from './view.ts'

/** One argument of a program holds at most 128 KB. */
const longestPrompt = 96 * 1024
const quotedLines = 40

export type Review = {
  readonly view: View
  readonly decisions: Decisions
  readonly comments: readonly CommentRecord[]
  readonly transitions: readonly Transition[]
  /** Said with the order to go on. */
  readonly last: string
}

/**
 * What the agent is told when its work is sent back: what was said of the whole, every comment since its last
 * turn with the place it is about, and what else is to be done again. Null when nothing was said.
 */
export function reworkPrompt(
  id: string,
  { view, decisions, comments, transitions, last }: Review,
): string | null {
  const moves = transitions.filter(({ from, to }) => from !== to)
  const lastTurn = moves.findLast((each) => each.from !== null && each.to === 'active')?.at ?? ''
  const rejection = moves.findLast((each) => each.to === 'rejected' && each.at >= lastTurn)
  const parts: string[] = []
  const spokenOf = new Set<string>()
  for (const comment of comments.filter(({ at }) => at >= lastTurn)) {
    const file = view.files.find((each) => entryKey(each.entry) === entryKey(comment))
    const hunk = file?.hunks.find((each) => isAbout(comment, file, each))
    const path = toText(comment.path as FileView['entry']['path'])
    spokenOf.add(`${entryKey(comment)}\0${hunk?.id ?? comment.hunk ?? ''}`)
    const verdict =
      file === undefined ? null : hunk === undefined ? decisions.ofFile(file) : decisions.ofHunk(file, hunk)
    parts.push(
      `- ${place(path, hunk?.id ?? comment.hunk)}${verdict === null ? '' : ` [${verdict}]`}: ${comment.text}${quote(hunk)}`,
    )
  }
  for (const file of view.files) {
    for (const hunk of file.hunks.length === 0 ? [null] : file.hunks) {
      const verdict = hunk === null ? decisions.ofWhole(file) : decisions.ofHunk(file, hunk)
      const key = entryKey(file.entry)
      if ((verdict !== 'rework' && verdict !== 'reject') || spokenOf.has(`${key}\0`)) continue
      if (hunk !== null && spokenOf.has(`${key}\0${hunk.id}`)) continue
      parts.push(
        `- ${place(toText(file.entry.path), hunk?.id ?? null)} [${verdict}]${quote(hunk ?? undefined)}`,
      )
    }
  }
  const said = [rejection?.why ?? '', last].flatMap((text) => (text === '' ? [] : ['', text]))
  if (parts.length === 0 && said.length === 0) return null
  const head = [`Your changes were reviewed and need rework (changeset ${id}).`, ...said]
  return fitting([...head, ...(parts.length === 0 ? [] : ['', 'Comments:'])], parts)
}

function place(path: string, hunk: string | null): string {
  return hunk === null ? path : `${path} (hunk ${hunk})`
}

/** The lines a comment is about: an agent does not know our names of hunks. */
function quote(hunk: PatchHunk | undefined): string {
  if (hunk === undefined) return ''
  const lines = [hunk.header, ...hunk.lines].map((line) => Buffer.from(line, 'latin1').toString('utf8'))
  const shown = lines.slice(0, quotedLines).map((line) => `\n    ${line}`)
  return shown.join('') + (lines.length > quotedLines ? '\n    …' : '')
}

function fitting(head: readonly string[], parts: readonly string[]): string {
  const kept = [...head]
  let size = Buffer.byteLength(head.join('\n'))
  for (const [at, part] of parts.entries()) {
    size += Buffer.byteLength(part) + 1
    if (size > longestPrompt) {
      kept.push(`… and ${parts.length - at} more.`)
      break
    }
    kept.push(part)
  }
  const text = kept.join('\n').replaceAll('\0', '')
  return Buffer.byteLength(text) <= longestPrompt ? text : `${text.slice(0, longestPrompt / 4)}…`
}
