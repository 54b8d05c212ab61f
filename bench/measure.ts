import type { Contender, Limit, Row } from './row.ts'

export type Spread = {
  readonly name: string
  readonly median: number
  readonly low: number
  readonly high: number
  readonly samples: readonly number[]
}

export type Verdict = {
  readonly against: string
  readonly ratio: number
  readonly limit: string | null
  readonly ok: boolean
}

export type RowResult = {
  readonly name: string
  readonly unit: string
  readonly contenders: readonly Spread[]
  readonly verdicts: readonly Verdict[]
  /** Why the row was not measured here. */
  readonly left_out: string | null
}

function quantile(sorted: readonly number[], at: number): number {
  const position = (sorted.length - 1) * at
  const below = sorted[Math.floor(position)] ?? Number.NaN
  const above = sorted[Math.ceil(position)] ?? Number.NaN
  return below + (above - below) * (position - Math.floor(position))
}

/** The median with the middle half around it. */
export function spread(name: string, samples: readonly number[]): Spread {
  const sorted = samples.toSorted((a, b) => a - b)
  return {
    name,
    median: quantile(sorted, 0.5),
    low: quantile(sorted, 0.25),
    high: quantile(sorted, 0.75),
    samples,
  }
}

function judge(ratio: number, against: string, limits: readonly Limit[]): Verdict[] {
  const named = limits.filter((limit) => limit.against === against)
  if (named.length === 0) return [{ against, ratio, limit: null, ok: true }]
  return named.map((limit) =>
    'atMost' in limit
      ? { against, ratio, limit: `at most ${limit.atMost} ×`, ok: ratio <= limit.atMost }
      : { against, ratio, limit: `at least ${limit.atLeast} ×`, ok: ratio >= limit.atLeast },
  )
}

async function sampleOnce(contender: Contender): Promise<number> {
  const started = performance.now()
  const figure = await contender.sample()
  const elapsed = performance.now() - started
  await contender.reset?.()
  return figure ?? elapsed
}

/** Measures the contenders in turns, so that a busy moment of the machine hits all of them alike. */
export async function measure(row: Row, samples = row.samples): Promise<RowResult> {
  await using scope = new AsyncDisposableStack()
  const { subject, peers, limits } = await row.prepare(scope)
  const contenders = [subject, ...peers]
  const unmatched = limits.filter((limit) => !peers.some((peer) => peer.name === limit.against))
  if (unmatched.length > 0) throw new Error(`${row.name}: no peer is called "${unmatched[0]?.against}"`)
  for (let round = 0; round < (row.warmups ?? 1); round++) {
    for (const contender of contenders) await sampleOnce(contender)
  }
  const figures = contenders.map(() => [] as number[])
  for (let round = 0; round < samples; round++) {
    for (const [index, contender] of contenders.entries()) figures[index]?.push(await sampleOnce(contender))
  }
  const spreads = contenders.map(({ name }, index) => spread(name, figures[index] ?? []))
  const own = spreads[0]?.median ?? Number.NaN
  const verdicts = spreads.slice(1).flatMap(({ name, median }) => judge(own / median, name, limits))
  return { name: row.name, unit: row.unit ?? 'ms', contenders: spreads, verdicts, left_out: null }
}
