import { OrangeryError } from '../../../shared/errors.ts'
import { givenPath, givenText, isMeant, type GivenPlace } from '../bytePath.ts'
import { mergeTexts, type Conflict } from './conflicts.ts'
import type { Entry } from '../manifest.ts'
import { BlobReader } from '../objects/objects.ts'
import { chooseFiles } from '../review/reader.ts'
import type { FileView, View } from '../review/view.ts'

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
      hint: choicesOf(open),
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

/** The conflict that a choice is for, among those that may be chosen. */
export function findChoice<Open extends Pick<Conflict, 'root' | 'path' | 'path_b64' | 'choices'>>(
  view: View,
  conflicts: readonly Open[],
  place: GivenPlace,
  choice: Conflict['choices'][number],
): { readonly open: Open; readonly entry: Entry } {
  const { entry, open } = findConflict(view, conflicts, place)
  if (entry !== undefined && open?.choices.includes(choice) === true) return { entry, open }
  throw new OrangeryError(
    'changeset.no_such_choice',
    `${givenText(place)}: there is no conflict to settle with "${choice}"`,
    { kind: 'input', hint: choicesOf(open) },
  )
}
const choicesOf = (open: Pick<Conflict, 'choices'> | undefined): string =>
  open === undefined ? 'Look at the conflicts again.' : `Choices are: ${open.choices.join(', ')}.`

/** The conflict a caller means: by the name it was told, which may be the old one of a renamed file, or by the file's. */
export function findConflict<Open extends Pick<Conflict, 'root' | 'path' | 'path_b64'>>(
  view: View,
  conflicts: readonly Open[],
  given: GivenPlace,
): { readonly open: Open | undefined; readonly entry: Entry | undefined } {
  const { roots, entries } = view.manifest
  const { root } = given
  const meant = new Set(
    roots
      .filter((each) => root === undefined || each.path === root || each.name === root)
      .map((each) => each.path),
  )
  const told = conflicts.filter((each) => meant.has(each.root) && isMeant(givenPath(each), given))
  if (told.length > 1)
    throw new OrangeryError('changeset.ambiguous_path', `${givenText(given)} names several conflicts`, {
      kind: 'not_found',
      hint: `Name the root, or the bytes: ${told.map((each) => each.path_b64 ?? each.root).join(', ')}.`,
    })
  const open = told[0] ?? ofFile()
  const entry =
    open === undefined
      ? undefined
      : entries.find((each) => each.root === open.root && each.path === givenPath(open))
  return { open, entry }

  function ofFile(): Open | undefined {
    const isOld = ({ entry, from }: FileView) =>
      from !== null && meant.has(entry.root) && isMeant(from.path, given)
    const file = view.files.find(isOld) ?? chooseFiles(view, given)[0]
    const names = new Set([file?.entry.path, file?.from?.path])
    return conflicts.find((each) => each.root === file?.entry.root && names.has(givenPath(each)))
  }
}
