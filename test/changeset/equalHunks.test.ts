import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Decision } from '../../src/shared/changeset.ts'
import { Bench } from '../../src/engine/changeset/testing.ts'

const approved = { all: false, include_ignored: false }

/** A file in which the same block comes again and again: only where it stands tells one from another. */
const variants = [['x=1'], ['x=2'], ['x=3'], ['x=1', 'y=1'], []] as const
const filler = ['a', 'b', 'c', 'd']
const blockOf = (variant: number) => [...filler, ...(variants[variant] ?? []), ...filler]
const textOf = (blocks: readonly number[]) => `${blocks.flatMap(blockOf).join('\n')}\n`
/** In which block of the agent's file a hunk stands, by the line its header names. */
function blockAt(blocks: readonly number[], header: string): number {
  const line = Number(/\+(\d+)/.exec(header)?.[1]) + 3
  let end = 0
  return blocks.findIndex((variant) => line <= (end += blockOf(variant).length))
}

function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

type Model = { base: number[]; result: number[]; decided: Map<string, Decision> }

test.for([3, 37, 53, 59, 167])(
  'of equal hunks nothing lands that was not approved in its place, whatever turns, landings and undos come between (seed %i)',
  async (seed) => {
    await using bench = await Bench.make()
    const { changesets } = bench
    const random = randomFrom(seed)
    const count = 3 + random(4)
    const start = Array.from({ length: count }, () => 0)
    const model: Model = { base: [...start], result: [...start], decided: new Map() }
    const landings: number[][] = []
    const wasAway = new Set<string>()
    await bench.user(`printf '%s' '${textOf(start)}' > f`)
    const workspace = await bench.workspace()
    const { mount } = workspace.roots[0]!
    const upper = mount.kind === 'overlay' ? mount.upper : ''
    const { id } = workspace
    const stateAt = (block: number) => `${block}: ${model.base[block]} to ${model.result[block]}`
    const verdictAt = (block: number): Decision => model.decided.get(stateAt(block)) ?? null
    const turn = async () => {
      for (let edits = 1 + random(3); edits > 0; edits -= 1)
        model.result[random(count)] = random(variants.length)
      // One block stays different, so that there is something to look at.
      if (model.result.every((variant, at) => variant === model.base[at]))
        model.result[0] = (model.result[0]! + 1) % variants.length
      await writeFile(join(upper, 'f'), textOf(model.result))
      await changesets.capture(workspace, { final: true })
    }
    await turn()
    for (let step = 0; step < 16; step += 1) {
      const { state, files } = await changesets.get(id)
      if (state !== 'review') break
      const hunks = files.flatMap((file) => file.hunks)
      const places = hunks.map(({ header }) => blockAt(model.result, header))
      const isDifferent = model.result.flatMap((variant, at) => (variant === model.base[at] ? [] : [at]))
      expect(places, `seed ${seed}, step ${step}`).toEqual(isDifferent)
      const told = hunks.map(({ decision }) => decision)
      // One that was away for a while may be open again; any other keeps its verdict, and none gets another's.
      const expected = places.map((block, at) =>
        wasAway.has(stateAt(block)) && told[at] === null ? null : verdictAt(block),
      )
      expect(told, `seed ${seed}, step ${step}`).toEqual(expected)
      const lands = places.filter((_, at) => told[at] === 'approve')
      const present = new Set(places.map(stateAt))
      for (const key of model.decided.keys()) if (!present.has(key)) wasAway.add(key)
      const kind = random(8)
      const at = random(Math.max(1, hunks.length))
      const hunk = hunks[at]
      const verdict = (['approve', 'reject', 'approve', null] as const)[random(4)]!
      if (kind < 4 && hunk !== undefined && (verdict !== null || told[at] !== null)) {
        await changesets.decide(id, { path: 'f', hunk: hunk.id, verdict }, 'me')
        const block = places[at]!
        wasAway.delete(stateAt(block))
        model.decided.set(stateAt(block), verdict)
      } else if (kind === 4 || kind === 5) await turn()
      else if (kind === 6 && landings.length > 0) {
        await changesets.undo(id, 'me')
        const landed = model.base
        model.base = landings.splice(0)[0]!
        // What was there as the agent has it now was approved, be it in several steps.
        for (const [block, variant] of landed.entries()) {
          if (variant !== model.result[block] || variant === model.base[block]) continue
          wasAway.delete(stateAt(block))
          model.decided.set(stateAt(block), 'approve')
        }
      } else if (lands.length > 0) {
        landings.push([...model.base])
        await changesets.apply(id, approved, 'me')
        for (const block of lands) model.base[block] = model.result[block]!
      }
      expect(await readFile(join(bench.root, 'f'), 'utf8'), `seed ${seed}, step ${step}`).toBe(
        textOf(model.base),
      )
    }
  },
)
