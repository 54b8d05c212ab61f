import { OrangeryError } from '../../../shared/errors.ts'
import type { ChangesetRecord } from '../../base/changesetRecords.ts'
import { givenText, isMeant, toText, type GivenPlace } from '../bytePath.ts'
import { storeSide } from '../capture/content.ts'
import { Journals, type Journal } from './journal.ts'
import { localIdentity } from './isAt.ts'
import { Landing } from './land.ts'
import { PackWriter } from '../objects/packWriter.ts'
import type { Operation } from './steps.ts'
import { recoverChangeset } from './recover.ts'
import type { ApplyContext } from './transaction.ts'
import { Tree } from '../objects/tree.ts'

/**
 * A person has looked at a path that a crash left neither old nor new. `mine`: it stays as it is, and the apply
 * goes on around it. `theirs`: it is taken for the old content, kept for undo like one, and replaced. Gives what did not
 * work out beside the files.
 */
export async function settlePath(
  context: ApplyContext,
  record: ChangesetRecord,
  place: GivenPlace,
  choice: 'mine' | 'theirs',
): Promise<readonly string[]> {
  const journals = new Journals(context.layout.changeset(record.repoId, record.id), context.disk)
  const open = (await journals.open()).filter((journal) => journal.state === 'committing')
  const journal = open.find((each) => each.operations.some((operation) => isAbout(operation, place)))
  if (journal === undefined) throw nothingToSettle(record, place)
  const operations: Operation[] = []
  for (const operation of journal.operations) {
    const settled = isAbout(operation, place)
    if (!settled) operations.push(operation)
    else if (choice === 'mine') operations.push({ ...operation, left: true })
    else operations.push(await takenForOld(context, record, journal, operation))
  }
  const { stopped: _settled, ...rest } = journal
  await journals.write({ ...rest, operations })
  return recoverChangeset(context, record)
}

function isAbout(operation: Operation, place: GivenPlace): boolean {
  return isMeant(operation.path, place) && (place.root === undefined || place.root === operation.root)
}

async function takenForOld(
  context: ApplyContext,
  record: ChangesetRecord,
  journal: Journal,
  operation: Operation,
): Promise<Operation> {
  await using tree = new Tree(operation.root, context.disk)
  const stat = await tree.lstat(operation.path)
  if (stat === null) return { ...operation, before: null, identity: null, left: operation.kind === 'remove' }
  const isContent = operation.kind === 'put' || operation.kind === 'remove'
  if (!isContent || !(stat.isFile() || stat.isSymbolicLink())) throw inTheWay(operation)
  const writer = new PackWriter(context.layout.objects(record.repoId), context.disk)
  const before = await storeSide(tree, operation.path, stat, writer, undefined)
  await writer.flush()
  await using landing = new Landing(journal, context.disk)
  await landing.forgetOld(operation)
  return { ...operation, before, identity: localIdentity(stat) }
}

function nothingToSettle(record: ChangesetRecord, place: GivenPlace): OrangeryError {
  return new OrangeryError(
    'changeset.nothing_to_settle',
    `${givenText(place)}: changeset ${record.id} does not wait for it`,
    {
      kind: 'input',
      hint: 'Only what an apply or undo stopped at after a crash is settled; `changeset show` names it.',
    },
  )
}

function inTheWay({ path }: Operation): OrangeryError {
  return new OrangeryError(
    'changeset.in_the_way',
    `${toText(path)}: what lies there now cannot be replaced`,
    {
      kind: 'busy',
      hint: 'Move it away and settle again, or settle it with `mine`.',
    },
  )
}
