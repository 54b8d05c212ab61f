import { expect, test } from 'vitest'
import { run } from '../base/process.ts'

/** Root passes every mode; without these capabilities it is as locked out as an ordinary user. */
const ordinary = process.getuid?.() === 0 ? ['--bounding-set', '-dac_override,-dac_read_search'] : []

async function asOrdinary(body: string): Promise<string> {
  const script = `
    const { readdir } = await import('node:fs/promises')
    const { join } = await import('node:path')
    const { Bench } = await import(${JSON.stringify(new URL('testing.ts', import.meta.url).href)})
    await using bench = await Bench.make()
    ${body}`
  const { stdout, stderr } = await run(
    'setpriv',
    [...ordinary, process.execPath, '--input-type=module', '-e', script],
    { env: { PATH: process.env['PATH'] ?? '' } },
  )
  return stdout.toString() || stderr.toString()
}

test('a folder of mode 000 that landed can be undone by an ordinary user', async () => {
  const said = await asOrdinary(`
    await bench.user('mkdir old; seq 9 > old/o')
    const { id } = await bench.dispatch(
      'mkdir -p un/deep; echo u > un/deep/u; echo x >> old/o; chmod 000 un/deep un')
    await bench.changesets.apply(id, { all: true, include_ignored: true }, 'test')
    const locked = await readdir(join(bench.root, 'un')).catch((error) => error.code)
    await bench.changesets.undo(id, 'test')
    const names = await readdir(bench.root)
    const old = await readdir(join(bench.root, 'old'))
    console.log(JSON.stringify({ locked, names, old }))`)
  expect(said).toBe(`${JSON.stringify({ locked: 'EACCES', names: ['old'], old: ['o'] })}\n`)
})

test('what went with a folder that was replaced goes also where the agent closed the folder around it', async () => {
  const said = await asOrdinary(`
    await bench.user('mkdir -p d/o/s; echo q > d/o/q; echo s > d/o/s/s; echo f > d/f')
    const { id } = await bench.dispatch('rm -rf d/o; mkdir d/o; echo new > d/o/new; chmod 000 d')
    const { files } = await bench.changesets.get(id)
    console.log(JSON.stringify(files.map(({ path, change }) => change + ' ' + path)))`)
  expect(said).toBe(`${JSON.stringify(['mode d', 'added d/o/new', 'deleted d/o/q', 'deleted d/o/s/s'])}\n`)
})
