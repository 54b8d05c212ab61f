import { withoutListItem } from './listEdit.ts'
import type { ConfigLayer } from './read.ts'
import { approvalDigest } from './trust.ts'

export const approvalsKey = 'sandboxApprovedEscalations'

/** Where in a file the approvals stand that a digest was chosen of. */
export const indexesOf = (layer: ConfigLayer, isChosen: (id: string) => boolean): number[] =>
  (layer.values[approvalsKey] ?? []).flatMap((approval, index) =>
    isChosen(approvalDigest(approval)) ? [index] : [],
  )

/** The text without them, and otherwise as it was. */
export const withoutApprovals = (layer: ConfigLayer, isChosen: (id: string) => boolean): string =>
  indexesOf(layer, isChosen).reduceRight(
    (text, index) => withoutListItem(text, approvalsKey, index),
    layer.text,
  )
