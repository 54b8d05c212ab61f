import { spawn } from 'node:child_process'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Bench } from '../../src/engine/changeset/testing.ts'

/** Swaps a folder for a link that leads outside, and back, as fast as it can. */
const attacker = `
const { renameSync, symlinkSync, unlinkSync } = require('node:fs')
const [folder, outside] = process.argv.slice(1)
for (;;) {
  try { renameSync(folder, folder + '.away'); symlinkSync(outside, folder) } catch {}
  try { unlinkSync(folder) } catch {}
  try { renameSync(folder + '.away', folder) } catch {}
}`

async function underAttack(
  bench: Bench,
  outside: string,
  work: (round: number) => Promise<void>,
): Promise<number> {
  const child = spawn(process.execPath, ['-e', attacker, join(bench.root, 'd'), outside], { stdio: 'ignore' })
  try {
    for (let round = 0; round < 30; round += 1) await work(round)
  } finally {
    child.kill('SIGKILL')
    await new Promise((resolve) => child.on('exit', resolve))
  }
  return (await readdir(outside)).length
}

test('a parent that is swapped for a link meanwhile leads nothing out of the root', async () => {
  await using bench = await Bench.make()
  const outside = join(bench.folder, 'outside')
  await mkdir(outside)
  await bench.user('mkdir d; for i in $(seq 40); do echo old > d/f$i; done')

  // The control: the same writes by path do land outside, so the attack is real.
  const byPath = await underAttack(bench, outside, async (round) => {
    for (let at = 0; at < 40; at += 1) {
      await writeFile(join(bench.root, 'd', `control${round}-${at}`), 'x').catch(() => {})
    }
  })
  expect(byPath).toBeGreaterThan(0)

  await bench.user(
    'rm -rf d d.away; mkdir d; for i in $(seq 40); do echo old > d/f$i; done; rm -rf ../outside; mkdir ../outside',
  )
  const { id } = await bench.dispatch('for i in $(seq 40); do echo new > d/f$i; echo new > d/n$i; done')
  let landed = 0
  const byDescriptor = await underAttack(bench, outside, async () => {
    const result = await bench.changesets
      .apply(id, { all: true, include_ignored: false }, 'test')
      .catch(() => null)
    if (result === null) return
    landed += 1
    await bench.changesets.undo(id, 'test').catch(() => {})
  })
  console.log(
    `by path ${byPath} files landed outside; by descriptor ${byDescriptor}, with ${landed} applies that got through`,
  )
  expect(byDescriptor).toBe(0)
})
