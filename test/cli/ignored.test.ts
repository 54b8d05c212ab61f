import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

test('ignored files are told by folder with their number and size, in show, apply and dry-run', async () => {
  using place = new Place('launcher')
  const user = (script: string) => execFileSync('sh', ['-ec', script], { cwd: place.folder, env: place.env })
  user(`git init -q; git config user.name U; git config user.email u@x
    printf 'node_modules/\\n*.log\\n' > .gitignore; echo a > a; git add -A; git commit -qm b`)
  const agent = `for i in $(seq 1 200); do mkdir -p node_modules/p$i; echo $i > node_modules/p$i/i.js; done
    mkdir src; echo s > src/s; echo l > src/1.log; echo l > src/2.log; echo 1 > one.log; echo AA > a`
  await place.orangery('run', '-q', '--', 'sh', '-c', agent)
  const changeset = async (...args: string[]) => (await place.orangery('changeset', ...args)).stdout
  const [{ id }] = JSON.parse(await changeset('list', '--json')) as [{ id: string }]
  const shown = await changeset('show', id)
  expect(shown).toContain('3 changes, +3 -1, and 202 ignored files')
  expect(shown).toMatch(/A +\+200 -0 +- +node_modules\/ +200 ignored files, 692 B/)
  expect(shown).toMatch(/A +\+2 -0 +- +src\/ +2 ignored files, 4 B/)
  expect(shown).toMatch(/one\.log +ignored/)
  expect(shown.split('\n').length).toBeLessThan(20)
  expect((await changeset('show', id, '--ignored')).match(/node_modules\/p\d+\/i\.js/g)).toHaveLength(200)
  const dry = await changeset('apply', id, '--all', '--dry-run')
  expect(dry).toMatch(/stays +node_modules\/: 200 ignored files, 692 B: ignored by git/)
  expect(await changeset('apply', id, '--all', '--include-ignored', '--dry-run')).toMatch(
    /lands +node_modules\/: 200 ignored files, 692 B\n/,
  )
  const applied = await changeset('apply', id, '--all')
  expect(applied).toMatch(/skipped +node_modules\/: 200 ignored files, 692 B: ignored by git/)
  expect(applied.split('\n').length).toBeLessThan(10)
  const json = JSON.parse(await changeset('apply', id, '--all', '--json')) as { skipped: unknown[] }
  expect(json.skipped).toHaveLength(203)
})
