import { OrangeryError } from '../../shared/errors.ts'
import { mergeTexts, type Conflict } from './conflicts.ts'
import { BlobReader } from './objects.ts'

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
