import { expect, test } from 'vitest'
import { run } from '../../base/process.ts'

/** Root passes every mode; without these capabilities it is as locked out as an ordinary user. */
const ordinary = process.getuid?.() === 0 ? ['--bounding-set', '-dac_override,-dac_read_search'] : []

async function asOrdinary(body: string): Promise<string> {
  const script = `
    const { readdir } = await import('node:fs/promises')
    const { join } = await import('node:path')
    const { Bench } = await import(${JSON.stringify(new URL('../testing.ts', import.meta.url).href)})
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

test.each(['000', '600'])(
  'work in roots that the agent closed whole, by mode %s, is captured from overlays and copies, and said to be there before',
  async (mode) => {
    const said = await asOrdinary(`
      await using two = await Bench.make(['one', 'two'])
      await two.user('echo old > old')
      const script = 'echo work > w; rm -f old; echo 2 > ../two/t; chmod ${mode} ../two .'
      const told = []
      for (const made of [await two.workspace(), await two.copiedWorkspace()]) {
        await two.agent(made, script)
        await two.changesets.capture(made, { final: false })
        const live = await two.changesets.get(made.id)
        await two.changesets.capture(made, { final: true })
        const { files } = await two.changesets.get(made.id)
        told.push(live.dropped.map(({ path }) => path), files.map(({ path, change }) => change + ' ' + path))
      }
      console.log(JSON.stringify(told))`)
    const found = [
      ['.', '.'],
      ['deleted old', 'added w', 'added t'],
    ]
    expect(said).toBe(`${JSON.stringify([...found, ...found])}\n`)
  },
)

test('folders of mode 000, however many and however deep, are captured with few descriptors and closed again', async () => {
  const script = `
    const { execFileSync } = await import('node:child_process')
    const { Bench } = await import(${JSON.stringify(new URL('../testing.ts', import.meta.url).href)})
    await using bench = await Bench.make()
    const { id, workspace } = await bench.dispatch(\`perl -e '
      for (1 .. 400) { mkdir "d$_"; open F, ">", "d$_/f"; chmod 0, "d$_" }
      for (1 .. 140) { mkdir "n"; chdir "n" }
      open F, ">", "f";
      for (1 .. 140) { chdir ".."; chmod 0, "n" }'\`)
    const changeset = await bench.changesets.get(id)
    const upper = workspace.roots[0].mount.upper
    const modes = execFileSync('find', [upper, '-mindepth', '1', '-maxdepth', '1', '-perm', '000', '-printf', '.'])
    execFileSync('chmod', ['-R', 'u+rwX', upper])
    const files = changeset.files.filter(({ path }) => path.endsWith('/f'))
    console.log(JSON.stringify({ files: files.length, closed: modes.length }))`
  const { stdout, stderr } = await run(
    'sh',
    [
      '-c',
      'ulimit -n 350; exec setpriv "$@"',
      'sh',
      ...ordinary,
      process.execPath,
      '--input-type=module',
      '-e',
      script,
    ],
    { env: { PATH: process.env['PATH'] ?? '' } },
  )
  expect(stdout.toString(), stderr.toString()).toBe(`${JSON.stringify({ files: 401, closed: 401 })}\n`)
})
