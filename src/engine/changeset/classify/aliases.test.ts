import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fromText } from '../bytePath.ts'
import { isProtectedPath } from './protectedPaths.ts'
import { Bench } from '../testing.ts'

const all = { all: true, include_ignored: true }

async function heldBack(bench: Bench, id: Parameters<Bench['changesets']['get']>[0]) {
  const { files } = await bench.changesets.get(id)
  const { applied } = await bench.changesets.apply(id, all, 'test')
  const landed = new Set(applied.map(({ path }) => path))
  const held = files.filter((file) => !landed.has(file.path))
  expect(held.every((file) => file.protected)).toBe(true)
  return { held: held.map((file) => file.path), landed: [...landed].toSorted() }
}

test('what a protected name of the user leads to through links does not land with "approve all"', async () => {
  await using bench = await Bench.make(['above/project'])
  await bench.user(
    `echo rules > agents.txt; ln -s agents.txt CLAUDE.md; echo hop > first; ln -s first second; ln -s second AGENTS.md
     mkdir -p ghub/workflows tools/inner shared packages scripts .git/hooks; ln -s ghub .github; ln -s tools/inner .vscode
     echo '{"scripts":{}}' > pkg.json; ln -s ../pkg.json packages/package.json
     ln -s shared .claude; echo deep > deep; ln -s ../deep shared/settings.json
     echo hook > scripts/hook.sh; ln -s ../../scripts/hook.sh .git/hooks/pre-commit; echo plain > plain; ln -s plain README.md
     echo rc > bashrc`,
  )
  await symlink(join(bench.root, 'bashrc'), join(bench.root, '../.bashrc'))
  const { id } = await bench.dispatch(
    `echo x > agents.txt; echo x > first; echo x > ghub/workflows/x.yml; echo x > ghub/readme; echo x > tools/inner/tasks.json; echo x > tools/other
     echo '{"scripts":{"postinstall":"id"}}' > pkg.json; echo x > deep; echo x > scripts/hook.sh; echo x > scripts/other.sh; echo x > plain; echo x > bashrc`,
  )
  const { held, landed } = await heldBack(bench, id)
  expect(held).toEqual([
    'agents.txt',
    'bashrc',
    'deep',
    'first',
    'ghub/workflows/x.yml',
    'pkg.json',
    'scripts/hook.sh',
    'tools/inner/tasks.json',
  ])
  expect(landed).toEqual(['ghub/readme', 'plain', 'scripts/other.sh', 'tools/other'])
})

test('what the user has git take hooks from does not land with "approve all", by whatever link and from whatever root', async () => {
  await using bench = await Bench.make(['project', 'project/sub'])
  await bench.user(
    `git init -q; git config core.hooksPath sub/hooks; mkdir -p sub/tools/hooks sub/src/hooks
     echo hook > sub/tools/hooks/pre-commit; ln -s tools/hooks sub/hooks; echo called > sub/called
     ln -s ../../called sub/tools/hooks/pre-push; echo plain > sub/src/hooks/plain`,
  )
  const workspace = await bench.workspace([join(bench.root, 'sub')])
  const { id } = await bench.dispatch(
    `echo x > hooks/pre-commit; echo x > hooks/post-commit; echo x > called; echo x > src/hooks/plain; echo x > tools/other`,
    Promise.resolve(workspace),
  )
  expect(await heldBack(bench, id)).toEqual({
    held: ['called', 'tools/hooks/post-commit', 'tools/hooks/pre-commit'],
    landed: ['src/hooks/plain', 'tools/other'],
  })
  const swapped = await bench.dispatch(
    'mkdir evil; echo x > evil/pre-commit; rm hooks; ln -s evil hooks',
    bench.workspace([join(bench.root, 'sub')]),
  )
  expect((await heldBack(bench, swapped.id)).held).toEqual(['evil/pre-commit', 'hooks'])
})

test('a link the agent makes under a protected name holds back what it leads to, also one link later', async () => {
  await using bench = await Bench.make()
  await bench.user('mkdir ghub .config; echo m > mid; ln -s mid GEMINI.md')
  const { id } = await bench.dispatch(
    `echo evil > notes; ln -s notes CLAUDE.md; ln -s ghub .github; mkdir ghub/workflows; echo w > ghub/workflows/ci.yml
     rm mid; echo evil > other; ln -s other mid; mkdir conf; ln -s ../conf .config/fish; echo c > conf/config.txt; echo plain > plain`,
  )
  const { held, landed } = await heldBack(bench, id)
  expect(held).toEqual([
    '.config/fish',
    '.github',
    'CLAUDE.md',
    'conf/config.txt',
    'ghub/workflows/ci.yml',
    'mid',
    'notes',
    'other',
  ])
  expect(landed).toEqual(['plain'])
})

test('a new folder that everyone may write to lands closed to others, and says so', async () => {
  await using bench = await Bench.make()
  const { id } = await bench.dispatch(
    'umask 0; mkdir -m 3777 open; echo f > open/f; mkdir -m 2775 group; echo g > group/g',
  )
  const { dropped } = await bench.changesets.get(id)
  expect(dropped.map(({ path }) => path)).toEqual(['group', 'open'])
  await bench.changesets.apply(id, all, 'test')
  expect(await bench.snapshot()).toMatch(/^group d 775 \n[^]*^open d 775 $/m)
})

test('what makes shells, editors, agents and CI run code is protected by its name, wherever it lies', () => {
  const names = `.bashrc sub/.envrc CLAUDE.local.md .windsurfrules .aider.conf.yml lefthook.yaml mise.toml .ssh/authorized_keys
    .config/git/config .config/fish/conf.d/x.fish .cargo/config.toml .GitHub/Workflows/ci.yml .husky/pre-commit a/b/.vscode/x
    .config/nushell/config.nu env.nu .config/powershell/Microsoft.PowerShell_profile.ps1 .config/elvish/rc.elv .xonshrc .yashrc
    .bashrc.d/10-own .claude.json buildspec.yml codemagic.yaml wercker.yml .builds/arch.yml`
  for (const name of names.split(/\s+/)) expect(isProtectedPath('/r', fromText(name)), name).toBe(true)
  for (const name of ['readme.md', 'src/config', '.github/README.md', '.cargo/README', 'fish/notes'])
    expect(isProtectedPath('/r', fromText(name)), name).toBe(false)
})
