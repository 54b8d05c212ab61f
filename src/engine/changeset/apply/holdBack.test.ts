import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from '../testing.ts'

const kept = (path: string) => ({ path, why: 'you kept your own' })
const own = 'own\n'
const agents = /^1\n[^]*theirs\n/
const edited = /^1\n[^]*mine\n/

test.each([
  { b: 'mine', a: 'mine', now: [edited, own], applied: [], skipped: [kept('b')] },
  { b: 'mine', a: 'theirs', now: [null, own], applied: ['a'], skipped: [kept('b')] },
  { b: 'theirs', a: 'mine', now: [edited, agents], applied: ['b'], skipped: [kept('a')] },
  { b: 'theirs', a: 'theirs', now: [null, agents], applied: ['b'], skipped: [] },
  { b: 'both', a: 'mine', now: [edited, /^own\n[^]*theirs\n/], applied: ['b'], skipped: [kept('a')] },
] as const)(
  'who is asked for both names of a renamed file has each of his choices carried out, told and undone: $b for the new, $a for the old',
  async ({ b, a, now, applied, skipped }) => {
    await using bench = await Bench.make()
    const { changesets } = bench
    await bench.user('seq 20 > a')
    const { id } = await bench.dispatch('mv a b; sed -i s/^9$/theirs/ b')
    await bench.user('sed -i s/^9$/mine/ a; echo own > b')
    const before = await bench.snapshot()
    await changesets.resolve(id, { path: 'b', choice: b }, 'me')
    await changesets.resolve(id, { path: 'a', choice: a }, 'me')
    const result = await changesets.apply(id, { all: true, include_ignored: false }, 'me')
    expect(result).toMatchObject({ state: 'applied', skipped })
    expect(result.applied.map(({ path }) => path)).toEqual(applied)
    for (const [at, path] of ['a', 'b'].entries()) {
      const text = await readFile(join(bench.root, path), 'utf8').catch(() => null)
      const wanted = now[at]
      expect(text).toEqual(wanted instanceof RegExp ? expect.stringMatching(wanted) : wanted)
    }
    const undone = await changesets.undo(id, 'me')
    expect([undone.state, undone.applied.map(({ path }) => path)]).toEqual(['review', applied])
    expect(await bench.snapshot()).toBe(before)
  },
)
