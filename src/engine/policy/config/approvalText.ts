import { withoutEmptyList, withoutListItem } from './listEdit.ts'
import type { ConfigLayer } from './read.ts'
import { approvalDigest } from './trust.ts'

export const approvalsKey = 'sandboxApprovedEscalations'

/** Where in a file the approvals stand that a digest was chosen of. */
export const indexesOf = (layer: ConfigLayer, isChosen: (id: string) => boolean): number[] =>
  (layer.values[approvalsKey] ?? []).flatMap((approval, index) =>
    isChosen(approvalDigest(approval)) ? [index] : [],
  )

/** The text without them and without an empty list of them, and otherwise as it was. */
export function withoutApprovals(layer: ConfigLayer, isChosen: (id: string) => boolean): string {
  const indexes = indexesOf(layer, isChosen)
  if (indexes.length === 0) return layer.text
  const left = indexes.reduceRight((text, index) => withoutListItem(text, approvalsKey, index), layer.text)
  return withoutEmptyList(left, approvalsKey)
}
