import { expect, test } from 'vitest'
import { run } from '../base/process.ts'

/** Root passes every mode; without these capabilities it is as locked out as an ordinary user. */
const ordinary = process.getuid?.() === 0 ? ['--bounding-set', '-dac_override,-dac_read_search'] : []

test('a folder of mode 000 that landed can be undone by an ordinary user', async () => {
  const script = `
    const { readdir } = await import('node:fs/promises')
    const { join } = await import('node:path')
    const { Bench } = await import(${JSON.stringify(new URL('testing.ts', import.meta.url).href)})
    await using bench = await Bench.make()
    await bench.user('mkdir old; seq 9 > old/o')
    const { id } = await bench.dispatch(
      'mkdir -p un/deep; echo u > un/deep/u; echo x >> old/o; chmod 000 un/deep un')
    await bench.changesets.apply(id, { all: true, include_ignored: true }, 'test')
    const locked = await readdir(join(bench.root, 'un')).catch((error) => error.code)
    await bench.changesets.undo(id, 'test')
    const names = await readdir(bench.root)
    const old = await readdir(join(bench.root, 'old'))
    console.log(JSON.stringify({ locked, names, old }))`
  const { stdout, stderr } = await run(
    'setpriv',
    [...ordinary, process.execPath, '--input-type=module', '-e', script],
    { env: { PATH: process.env['PATH'] ?? '' } },
  )
  expect(stdout.toString(), stderr.toString()).toBe(
    `${JSON.stringify({ locked: 'EACCES', names: ['old'], old: ['o'] })}\n`,
  )
})
