import { OrangeryError } from '../../shared/errors.ts'
import { toText } from './bytePath.ts'
import { mergeTexts, type Conflict } from './conflicts.ts'
import type { Entry } from './manifest.ts'
import { BlobReader } from './objects.ts'
import { chooseFiles } from './reader.ts'
import type { View } from './view.ts'

export type EditableTexts = { readonly mine: Buffer; readonly theirs: Buffer; readonly both: Buffer }

/** The two sides of a conflict, and both in one text with marks where they contradict: what a person edits. */
export async function conflictTexts(
  gitDir: string,
  path: string,
  open: Conflict | undefined,
): Promise<EditableTexts> {
  if (open?.texts === undefined) {
    throw new OrangeryError('changeset.no_such_choice', `${path}: there is no conflict to edit`, {
      kind: 'input',
      hint: open === undefined ? 'Look at the conflicts again.' : `Choices are: ${open.choices.join(', ')}.`,
    })
  }
  await using blobs = new BlobReader(gitDir)
  const mine = await blobs.read(open.texts.mine)
  const theirs = await blobs.read(open.texts.theirs)
  const before = open.texts.base === null ? Buffer.alloc(0) : await blobs.read(open.texts.base)
  const both = await mergeTexts([mine, before, theirs], 'marked')
  if (both === null)
    throw new OrangeryError('changeset.not_text', `${path}: this is no text that can be edited`, {
      kind: 'input',
      hint: 'Take one of the two sides.',
    })
  return { mine, theirs, both }
}

/** The conflict a caller means: by the name it was told, which may be the old one of a renamed file, or by the file's. */
export function findConflict<Open extends Pick<Conflict, 'root' | 'path'>>(
  view: View,
  conflicts: readonly Open[],
  { path, root }: { readonly path: string; readonly root?: string | undefined },
): { readonly open: Open | undefined; readonly entry: Entry | undefined } {
  const { roots, entries } = view.manifest
  const meant = new Set(
    roots
      .filter((each) => root === undefined || each.path === root || each.name === root)
      .map((each) => each.path),
  )
  const told = conflicts.filter((each) => each.path === path && meant.has(each.root))
  if (told.length > 1)
    throw new OrangeryError('changeset.ambiguous_path', `${path} is in conflict in several roots`, {
      kind: 'not_found',
      hint: `Name the root: ${told.map((each) => each.root).join(', ')}.`,
    })
  const open = told[0] ?? ofFile()
  const entry = entries.find((each) => each.root === open?.root && toText(each.path) === open.path)
  return { open, entry }

  function ofFile(): Open | undefined {
    const [file] = chooseFiles(view, path, root)
    const names = new Set([file?.entry, file?.from].map((each) => (each == null ? null : toText(each.path))))
    return conflicts.find((each) => each.root === file?.entry.root && names.has(each.path))
  }
}
