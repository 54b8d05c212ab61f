import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../src/engine/base/process.ts'
import type { EscapeCase, Stage } from '../case.ts'
import { asUser, captureOurWay, landCarelessly } from '../landing.ts'
import { exists, landing } from '../landingCase.ts'
import type { World } from '../world.ts'

const makeRepository = async (world: World) => {
  await asUser(
    world,
    'git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@b commit -qm first',
  )
}

const commit = 'git status; git diff; git add -A; git -c user.name=a -c user.email=a@b commit -qm next'
const ran = async (world: World) => (await readdir(world.outside)).includes('ran')

const git: readonly EscapeCase[] = [
  landing({
    id: 'git-hooks',
    group: 'Git and agent configuration',
    attack: "leaves hooks in the user's repository that run at his next commit",
    guard: 'nothing below .git lands as a file',
    before: makeRepository,
    probe: ({ outside }) =>
      `mkdir -p .git/hooks; for hook in pre-commit post-index-change post-commit; do printf '#!/bin/sh\\ntouch ${outside}/ran\\n' >.git/hooks/$hook; chmod 755 .git/hooks/$hook; done`,
    user: commit,
    escaped: ran,
  }),
  landing({
    id: 'git-configuration',
    group: 'Git and agent configuration',
    attack: 'sets core.fsmonitor, core.hooksPath, an external diff and a filter, for our git or his',
    guard: 'nothing below .git lands, and our own git runs with a configuration of its own',
    before: makeRepository,
    probe: ({ outside }) =>
      `printf '#!/bin/sh\\ntouch ${outside}/ran\\ncat\\n' >run.sh; chmod 755 run.sh
      for key in core.fsmonitor diff.external filter.x.clean filter.x.smudge core.sshCommand; do git config $key "$PWD/run.sh"; done
      git config core.hooksPath "$PWD"; echo '* filter=x' >.git/info/attributes; echo more >>README.md`,
    user: commit,
    escaped: ran,
  }),
  landing({
    id: 'git-own-hooks',
    group: 'Git and agent configuration',
    attack: "has our own git run what the user's repository is set up to run (hooks, monitor, filter)",
    guard: 'our own git runs with a configuration of its own, whatever the repository says',
    before: async (world) => {
      await makeRepository(world)
      await asUser(
        world,
        `printf '#!/bin/sh\\ntouch ${world.outside}/ran\\ncat\\n' >.git/run.sh; chmod 755 .git/run.sh
        for key in core.fsmonitor diff.external filter.x.clean; do git config $key "$PWD/.git/run.sh"; done
        echo '* filter=x' >.git/info/attributes; cp .git/run.sh .git/hooks/post-index-change; rm -f ${world.outside}/ran`,
      )
    },
    probe: () => 'echo more >>README.md',
    careless: async (world) => {
      await asUser(world, 'git add -A; git diff --cached >/dev/null')
      await landCarelessly(world)
    },
    escaped: ran,
  }),
  landing({
    id: 'git-file',
    group: 'Git and agent configuration',
    attack: 'makes a folder a worktree of a repository it wrote (a .git file, commondir, a path with dots)',
    guard: 'neither .git files nor new repositories, by whatever name, land unasked',
    before: makeRepository,
    probe: ({ outside }) =>
      `printf '#!/bin/sh\\ntouch ${outside}/ran\\n' >run.sh; chmod 755 run.sh
      mkdir sub; git init -q --bare store; git -C store config core.bare false; git -C store config core.fsmonitor "$PWD/run.sh"
      git -C store config core.worktree ../sub; echo x >sub/file; echo 'gitdir: ../sub/../store' >sub/.git
      mkdir own; git init -q own; git -C own config core.fsmonitor "$PWD/run.sh"; echo x >own/file`,
    user: 'git -C sub status; git -C own status; git status',
    escaped: ran,
  }),
  landing({
    id: 'protected-names',
    group: 'Git and agent configuration',
    attack:
      'leaves files that other tools run or obey (.envrc, .mcp.json, tasks, scripts, .npmrc, .gitmodules)',
    guard: 'protected names need a decision of their own',
    probe: () =>
      `mkdir -p .vscode .husky .claude .github/workflows; for name in .envrc .mcp.json .vscode/tasks.json .npmrc .gitmodules .husky/pre-commit AGENTS.md .claude/settings.json .github/workflows/ci.yml; do echo planted >$name; done
      echo '{"scripts":{"postinstall":"touch planted"}}' >package.json`,
    escaped: async ({ ground }) => {
      const names =
        '.envrc .mcp.json .vscode/tasks.json .npmrc .gitmodules .husky/pre-commit AGENTS.md .claude/settings.json .github/workflows/ci.yml package.json'
      const found = await Promise.all(names.split(' ').map((name) => exists(join(ground.root, name))))
      return found.includes(true)
    },
  }),
]

const changes: readonly EscapeCase[] = [
  landing({
    id: 'landed-symlink',
    group: 'Changesets',
    attack: 'leaves symlinks that lead out of the root, for a tool of the host to follow',
    guard: 'links that leave the roots never land',
    probe: ({ canary, outside }) =>
      `ln -s '${canary}' link; ln -s ../outside/canary relative; ln -s '${outside}' folder; mkdir d; ln -s ../../outside d/up; ln -s d/up/canary chained`,
    user: 'for name in link relative folder/canary d/up/canary chained; do echo x >>$name; done',
    escaped: async (world) => world.isCanaryTouched(),
  }),
  landing({
    id: 'landed-over-symlink',
    group: 'Changesets',
    attack: 'has its file landed through a folder that has become a symlink meanwhile',
    guard: 'what is not as it was is a conflict, and apply walks by descriptor and follows no link',
    isRefused: true,
    probe: () => 'mkdir -p made; echo x >made/canary; echo x >made/new',
    between: ({ ground, outside }) => symlink(outside, join(ground.root, 'made')),
    careless: async (world) => {
      const { root, upper } = world.ground
      await mkdir(join(root, 'made'), { recursive: true })
      for (const name of ['harmless', 'made/canary', 'made/new']) {
        await writeFile(join(root, name), await readFile(join(upper, name)))
      }
    },
    escaped: async (world) => (await world.isCanaryTouched()) || (await exists(join(world.outside, 'new'))),
  }),
  landing({
    id: 'changed-after-review',
    group: 'Changesets',
    attack: 'changes its files after they were reviewed',
    guard: 'apply lands the bytes that were reviewed, known by their hash, or refuses',
    probe: () => 'echo reviewed >script.sh',
    between: ({ ground }) => writeFile(join(ground.upper, 'script.sh'), 'swapped\n'),
    escaped: async ({ ground }) =>
      (await readFile(join(ground.root, 'script.sh'), 'utf8').catch(() => '')) === 'swapped\n',
  }),
  landing({
    id: 'landed-set-gid',
    group: 'Changesets',
    attack: 'leaves a set-gid program to be landed',
    guard: 'modes land without set-uid and set-gid',
    probe: () => 'cp /usr/bin/env program; chmod 2755 program',
    careless: async ({ ground }) => void (await run('cp', ['-a', '--', `${ground.upper}/.`, ground.root])),
    escaped: async ({ ground }) => {
      const info = await stat(join(ground.root, 'program')).catch(() => null)
      return info !== null && (info.mode & 0o6000) !== 0
    },
  }),
  {
    ...landing({
      id: 'odd-files',
      group: 'Changesets',
      attack: 'leaves a fifo, a socket and a file of another mode in place of his files',
      guard: 'what is no file, folder or link never lands',
      probe: () =>
        `rm README.md; mkfifo README.md pipe; perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("sock"))'`,
      careless: async ({ ground }) => void (await run('cp', ['-a', '--', `${ground.upper}/.`, ground.root])),
      escaped: async ({ ground }) => {
        const odd = await Promise.all(
          ['README.md', 'pipe', 'sock'].map((name) => stat(join(ground.root, name)).catch(() => null)),
        )
        return odd.some((info) => info?.isFIFO() === true || info?.isSocket() === true)
      },
    }),
  },
]

type Scan = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  readonly probe: string
  /** A careless scan: a shell line in the agent's layer that must end in time, with this word. */
  readonly careless: string
  readonly finds: (files: number) => boolean
  readonly request?: Stage['request']
  readonly controlRequest?: Stage['request']
}

/** Against whoever looks at what the agent left: does the look end, and does it see everything? */
const scanning = ({
  id,
  attack,
  guard,
  probe,
  careless,
  finds,
  request,
  controlRequest,
}: Scan): EscapeCase => ({
  id,
  group: 'Changesets',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    const { workspace } = world.ground.request(['true'])
    let sound = false
    return {
      probe: `${probe}; echo harmless >harmless`,
      control: 'sandbox',
      ...(request === undefined ? {} : { request, patienceMs: 120_000 }),
      ...(controlRequest === undefined ? {} : { controlRequest }),
      afterwards: async (guarded) => {
        if (guarded) sound = finds(await captureOurWay(world, workspace))
        else {
          // Ends the whole group: what the shell started too.
          const looked = await run('timeout', ['-s', 'KILL', '1.5', 'sh', '-c', careless], {
            cwd: world.ground.upper,
          })
          sound = looked.code === 0
        }
      },
      escaped: () => !sound,
      tried: () => exists(join(world.ground.upper, 'harmless')),
    }
  },
})

const many = 100_000

const scans: readonly EscapeCase[] = [
  scanning({
    id: 'scan-sparse',
    attack: 'leaves a file of 1 TB that is one hole, to be read for ever',
    guard: 'files are read only after a look at their size and blocks',
    probe: 'truncate -s 1T sparse',
    careless: 'sha256sum sparse',
    finds: (files) => files === 2,
  }),
  scanning({
    id: 'scan-fifo',
    attack: 'leaves a fifo, at which a reader waits for ever',
    guard: 'only regular files are opened',
    probe: 'mkfifo pipe',
    careless: 'grep -r x . || [ $? = 1 ]; cat pipe',
    finds: (files) => files === 2,
  }),
  scanning({
    id: 'scan-cycle',
    attack: 'leaves symlinks that lead in circles',
    guard: 'the scan follows no link',
    probe: 'ln -s . loop; ln -s b a; ln -s a b; mkdir d; ln -s ../d d/d',
    careless: 'find -L . >/dev/null',
    finds: (files) => files === 5,
  }),
  scanning({
    id: 'scan-deep',
    attack: 'hides a file a thousand folders deep, deeper than a path can be long',
    guard: 'the scan walks by descriptor, not by path',
    probe: `perl -e 'for (1..1000) { mkdir "d" x 5; chdir "d" x 5 } open(F, ">", "hidden"); print F "hidden"'`,
    careless: `perl -e 'sub walk { my $d = shift; opendir(my $h, $d) or exit 1; for (readdir $h) { next if /^\\.\\.?$/; walk("$d/$_") if -d "$d/$_"; $found = 1 if $_ eq "hidden" } } walk($ENV{PWD}); exit !$found'`,
    finds: (files) => files === 2,
  }),
  scanning({
    id: 'scan-many',
    attack: 'leaves 100,000 tiny files for a scanner that takes its time for each',
    guard: 'no program is started for each of them',
    probe: `perl -e 'mkdir "many"; chdir "many"; for (1..$ENV{MANY}) { open(F, ">", $_); print F $_ }'`,
    // So many keep the careless one busy for long enough.
    request: { env: { MANY: String(many) } },
    controlRequest: { env: { MANY: '5000' } },
    careless: 'for each in many/*; do sha256sum "$each" >/dev/null; done',
    finds: (files) => files === many + 1,
  }),
]

export const changesets: readonly EscapeCase[] = [...git, ...changes, ...scans]
