/**
 * One figure of the benchmark: what we measure, and what it is measured against in the same run. Rows live in
 * `bench/rows/*.ts`; each file exports `rows`.
 */
export type Row = {
  /** Reads as the thing measured: "spawn to first instruction, tree of 200,000 files". */
  readonly name: string
  /** Milliseconds unless said otherwise. */
  readonly unit?: string
  readonly samples: number
  /** Runs of each contender that do not count. Default 1. */
  readonly warmups?: number
  /** Makes whatever the row needs; what is acquired goes into `scope` and is released when the row is done. */
  prepare(scope: AsyncDisposableStack): Promise<Contest>
}

export type Contest = {
  readonly subject: Contender
  readonly peers: readonly Contender[]
  readonly limits: readonly Limit[]
}

export type Contender = {
  readonly name: string
  /** Does it once. Gives back the figure, or nothing where the time it took is the figure. */
  sample(): Promise<number | void>
  /** Tidies up after one sample, outside the measured time. */
  reset?(): Promise<void>
}

/** What the subject's median divided by the peer's must keep to. */
export type Limit = { readonly against: string } & (
  { readonly atMost: number } | { readonly atLeast: number }
)

/** A row that cannot be measured here says why; it is listed, not failed. */
export class NotHere extends Error {
  override readonly name = 'NotHere'
}
