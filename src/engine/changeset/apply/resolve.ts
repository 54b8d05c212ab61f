import type { Conflicts } from '../../../shared/changeset.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord, ResolutionRecord } from '../../base/changesetRecords.ts'
import { filesOf, skipsOf } from './apply.ts'
import { givenText, type GivenPlace } from '../bytePath.ts'
import { findChoice, findConflict } from './conflictTexts.ts'
import type { Conflict } from './conflicts.ts'
import { PackWriter } from '../objects/packWriter.ts'
import type { ApplyPlan } from './planApply.ts'
import type { ApplyContext } from './transaction.ts'
import type { View } from '../review/view.ts'

/** A choice for one conflict; null takes it back. */
export type Resolution = GivenPlace & {
  readonly choice: ResolutionRecord['choice'] | null
  readonly content_b64?: string | undefined
}

/** What a plan runs into as people are told of it, with the choices that are in force. */
export function conflictsOf(record: ChangesetRecord, view: View, plan: ApplyPlan): Conflicts {
  const told = ({ texts: _texts, ...each }: Conflict) => ({ ...each, choices: [...each.choices] })
  return {
    revision: record.revision,
    conflicts: plan.conflicts.map(told),
    settled: plan.answers.map(({ conflict, resolution: { choice, by, at } }) => ({
      ...told(conflict),
      choice,
      by,
      at,
    })),
    merged: [...plan.merged],
    lands: filesOf(plan.landed),
    skipped: skipsOf(view, plan),
  }
}

/** Every conflict that a person may choose for: also one he has chosen for, since he may think again. */
export function allConflicts(plan: ApplyPlan): readonly Conflict[] {
  return [...plan.conflicts, ...plan.answers.map(({ conflict }) => conflict)]
}

/** Writes a choice down; it takes the place of an earlier one. */
export async function resolveConflict(
  { layout, records, disk }: ApplyContext,
  record: ChangesetRecord,
  view: View,
  plan: ApplyPlan,
  { choice, content_b64, ...place }: Resolution,
  by: string,
): Promise<void> {
  const { id, repoId } = record
  if (choice === null) {
    const answered = plan.answers.map(({ conflict }) => conflict)
    const { entry } = findConflict(view, answered, place)
    if (entry === undefined) throw nothingChosen(place)
    return records.unresolve(id, entry)
  }
  const { entry, open } = findChoice(view, allConflicts(plan), place, choice)
  let content: string | null = null
  if (choice === 'edit') {
    const writer = new PackWriter(layout.objects(repoId), disk)
    content = await writer.add('blob', Buffer.from(content_b64 ?? '', 'base64'))
    await writer.flush()
  }
  const { root, path } = entry
  records.resolve(id, { root, path, anchor: open.anchor, choice, content, by, at: new Date().toISOString() })
}

function nothingChosen(place: GivenPlace): OrangeryError {
  return new OrangeryError(
    'changeset.nothing_chosen',
    `${givenText(place)}: there is no choice to take back`,
    {
      kind: 'input',
      hint: '`orangery changeset conflicts` lists the choices that are in force.',
    },
  )
}
