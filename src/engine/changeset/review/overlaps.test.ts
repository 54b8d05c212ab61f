import { expect, test } from 'vitest'
import { Bench } from '../testing.ts'

test('changesets warn each other where one makes a folder of a file, or a file of a folder, that the other works on', async () => {
  await using bench = await Bench.make()
  await bench.user('echo base > f; mkdir d e; echo i > d/i; echo i > e/i; echo k > k')
  const one = await bench.dispatch(
    'rm f; mkdir f; echo x > f/x; rm -r d; echo file > d; echo n > n; echo a > alone; mkdir own',
  )
  const two = await bench.dispatch('echo edit > f; echo new > d/new; mkdir n; echo m > n/m; echo k > e/k')
  const warned = async (id: typeof one.id) => (await bench.changesets.get(id)).overlaps
  expect(await warned(one.id)).toEqual([{ id: two.id, paths: ['d', 'f', 'n'] }])
  expect(await warned(two.id)).toEqual([{ id: one.id, paths: ['d/new', 'f', 'n/m'] }])
})

test('of more shared files than are named the warning says how many there are', async () => {
  await using bench = await Bench.make()
  await bench.user('for n in $(seq 130); do echo base > f$n; done')
  const edit = (word: string) => `for n in $(seq 130); do echo ${word} > f$n; done`
  const one = await bench.dispatch(edit('one'))
  const two = await bench.dispatch(edit('two'))
  const [warning] = (await bench.changesets.get(one.id)).overlaps ?? []
  expect(warning).toMatchObject({ id: two.id, more: 30 })
  expect(warning?.paths).toHaveLength(100)
})
