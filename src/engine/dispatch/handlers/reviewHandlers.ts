import type { Handlers } from '../../../shared/api.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { loadWorkspace } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'
import { whileLanding } from '../landing/whileLanding.ts'
import { restoreChangeset } from './workspaceHandlers.ts'

type Review =
  | 'changeset.peek'
  | 'changeset.conflicts'
  | 'changeset.conflict_texts'
  | 'changeset.resolve'
  | 'changeset.settle'
  | 'changeset.escalate'
  | 'changeset.restore'
  | 'changeset.export'

/** The part of a review that goes beyond reading, deciding and landing. */
export function reviewHandlers(
  parts: Parts,
  find: (reference: string) => DispatchId,
): Pick<Handlers, Review> {
  const { changesets } = parts
  return {
    'changeset.peek': async ({ id: reference }) => {
      const id = find(reference)
      const { repoId } = parts.store.dispatches.get(id)
      // What failed its preflight has no workspace.
      return repoId === null ? [] : changesets.peek(await loadWorkspace(parts.layout, repoId, id))
    },
    'changeset.conflicts': ({ id, ...selection }) => changesets.conflicts(find(id), selection),
    'changeset.conflict_texts': async ({ id, ...place }) => {
      const { mine, theirs, both } = await changesets.conflictTexts(find(id), place)
      const encode = (text: Buffer) => text.toString('base64')
      return { mine_b64: encode(mine), theirs_b64: encode(theirs), both_b64: encode(both) }
    },
    'changeset.resolve': ({ id, ...resolution }, { by }) => changesets.resolve(find(id), resolution, by),
    'changeset.settle': ({ id: reference, choice, ...place }) => {
      const id = find(reference)
      return whileLanding(parts, id, () => changesets.settle(id, place, choice))
    },
    'changeset.escalate': ({ id, why }, { by }) => changesets.escalate(find(id), why, by),
    'changeset.restore': ({ id }, { by }) => restoreChangeset(parts, find(id), by),
    'changeset.export': async function* ({ id, ...wanted }, _signal, { by }) {
      const { name, chunks, left_out: leftOut } = await changesets.export(find(id), wanted, by)
      let first = leftOut === undefined ? {} : { left_out: leftOut }
      for await (const chunk of chunks) {
        yield { name, data_b64: chunk.toString('base64'), ...first }
        first = {}
      }
    },
  }
}
