import type { ChangesetState } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { rootPath } from '../bytePath.ts'
import type { Disk } from '../disk.ts'
import { Tree } from '../objects/tree.ts'

export function wrongState({ id, state }: ChangesetRecord, to: ChangesetState): OrangeryError {
  const hints: Record<ChangesetState, string> = {
    active: 'Its agent still works on it: wait for it or stop it.',
    review: 'It waits for review: decide on it, or reject it with a comment.',
    applied: `It has landed: take it back first with \`orangery changeset undo ${id}\`.`,
    rejected: `It was sent back: let the agent rework it, or bring it back with \`orangery changeset restore ${id}\`.`,
    abandoned: `It was abandoned: \`orangery changeset restore ${id}\` brings it back within 30 days.`,
  }
  const what = state === to ? `is ${state} already` : `is ${state}: it cannot become ${to}`
  return new OrangeryError('changeset.wrong_state', `changeset ${id} ${what}`, {
    kind: 'busy',
    hint: hints[state],
  })
}

export function fileMovedOn({ id }: ChangesetRecord, path: string): OrangeryError {
  return new OrangeryError(
    'changeset.moved',
    `cannot approve ${path}: it has changed since you looked at it`,
    { kind: 'busy', hint: `Read it again: \`orangery changeset diff ${id} --path ${path}\`.` },
  )
}

export function unseen({ id }: ChangesetRecord, path: string): OrangeryError {
  return new OrangeryError(
    'changeset.unseen',
    `cannot approve ${path}: its agent still writes, and it is not known which version you have seen`,
    {
      kind: 'busy',
      hint: `Read it first (\`orangery changeset diff ${id} --path ${path}\`), name what you have read with --revision, or approve single hunks with --hunk.`,
    },
  )
}

export function movedOn(record: ChangesetRecord): OrangeryError {
  return new OrangeryError(
    'changeset.moved',
    `changeset ${record.id} has changed since it was reviewed: it is at ${record.revision.slice(0, 12)} now`,
    { kind: 'busy', hint: 'Look at what changed and decide again.' },
  )
}

/** Else every file in it would count as deleted by the user. */
export async function refuseGoneRoots(roots: Iterable<string>, disk: Disk): Promise<void> {
  for (const root of new Set(roots)) {
    const stat = await new Tree(root, disk).lstat(rootPath)
    if (stat?.isDirectory() === true) continue
    const what =
      stat === null ? 'the folder is gone, was moved or is not mounted' : 'it is no folder any more'
    throw new OrangeryError('changeset.root_gone', `${root}: ${what}`, {
      kind: 'not_found',
      hint: 'Nothing was changed. Bring the folder back to that place and try again.',
    })
  }
}
