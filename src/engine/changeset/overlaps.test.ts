import { expect, test } from 'vitest'
import { Bench } from './testing.ts'

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
