import type { ChangedFile, Provenance, ReviewComment } from '../../../shared/changeset.ts'
import { namedPath, type BytePath } from '../bytePath.ts'
import type { Decisions } from './decisions.ts'
import type { Entry, Side } from '../manifest.ts'
import { sizeOf, type FileView } from './view.ts'

/** The original that did not change, and how much of the new file is its text, in percent. */
export type Copy = { readonly path: BytePath; readonly similarity: number }
export type Copies = (entry: Entry) => Copy | null

/** What is known about a file beside its content. */
export type Notes = {
  readonly comments: (file: FileView) => ReviewComment[]
  readonly provenance: (file: FileView, hunk: string) => Provenance | null
  readonly copyOf: Copies
}

export function changedFile(file: FileView, decisions: Decisions, notes: Notes): ChangedFile {
  const { entry, from } = file
  const base = from?.base ?? entry.base
  const shown = entry.result ?? entry.base
  const found = file.copyOf === null ? notes.copyOf(entry) : { path: file.copyOf, similarity: 100 }
  const copy = from === null ? found : null
  return {
    root: entry.root,
    ...namedPath(entry.path),
    ...named('from_path', from?.path ?? null),
    ...named('copy_of', copy?.path ?? null),
    ...(copy === null ? {} : { copy_similarity: copy.similarity }),
    anchor: file.anchor,
    change: file.change,
    kind: shown === null || shown.kind === 'special' ? 'file' : shown.kind,
    binary: file.binary,
    mode_before: modeText(base),
    mode_after: modeText(entry.result),
    sha256_before: hashOf(base),
    sha256_after: hashOf(entry.result),
    size_before: sizeOf(base),
    size_after: sizeOf(entry.result),
    insertions: file.hunks.reduce((total, hunk) => total + hunk.insertions, 0),
    deletions: file.hunks.reduce((total, hunk) => total + hunk.deletions, 0),
    protected: file.protected,
    ignored: file.ignored,
    refused: entry.refused,
    hunks: file.hunks.map((hunk) => ({
      id: hunk.id,
      header: Buffer.from(hunk.header, 'latin1').toString('utf8'),
      decision: decisions.ofHunk(file, hunk),
      insertions: hunk.insertions,
      deletions: hunk.deletions,
      provenance: notes.provenance(file, hunk.id),
    })),
    decision: decisions.ofFile(file),
    reopened: decisions.isReopened(file),
    asked_again: decisions.ofFile(file) === null && decisions.isRejectedThenDeleted(file),
    comments: notes.comments(file),
    provenance: notes.provenance(file, ''),
  }
}

function named<Key extends string>(
  key: Key,
  path: BytePath | null,
): { [name in Key | `${Key}_b64`]?: string } {
  if (path === null) return {}
  const { path: text, path_b64 } = namedPath(path)
  return { [key]: text, ...(path_b64 === undefined ? {} : { [`${key}_b64`]: path_b64 }) } as ReturnType<
    typeof named<Key>
  >
}

const typeBits = { file: 0o100000, symlink: 0o120000, directory: 0o040000 }
function modeText(side: Side | null): string | null {
  if (side === null || side.kind === 'special') return null
  const bits = typeBits[side.kind] | ('mode' in side ? side.mode : 0)
  return bits.toString(8).padStart(6, '0')
}
function hashOf(side: Side | null): string | null {
  return side !== null && 'sha256' in side ? side.sha256 : null
}
