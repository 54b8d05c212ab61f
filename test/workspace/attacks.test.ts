import { access, mkdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sandboxEffectiveSchema } from '../../src/shared/effective.ts'
import type { InvocationMeta } from '../../src/shared/invocation.ts'
import { Bench, execute, fingerprint, processesWith } from '../dispatch/harness.ts'

/**
 * An agent in a worktree sandbox has the whole repository before it and may write all of it: hooks,
 * configuration, refs, other worktrees. What it writes is its own copy. The oracle is a digest of every byte
 * of the real repository; the control is the same attack where the files are the user's own.
 */
const attacks: Readonly<Record<string, string>> = {
  hooks:
    'for hook in post-checkout pre-commit reference-transaction post-merge; do printf "#!/bin/sh\\ntouch $CANARY\\n" > $GIT/hooks/$hook; chmod 755 $GIT/hooks/$hook; done',
  'hooks path': 'git config core.hooksPath /tmp/evil',
  'file system monitor': 'git config core.fsmonitor "touch $CANARY"',
  filters: 'git config filter.x.clean "touch $CANARY"; echo "* filter=x" > $GIT/info/attributes',
  'external diff': 'git config diff.external "touch $CANARY"',
  'included configuration':
    'git config include.path /tmp/evil.config; git config alias.status "!touch $CANARY"',
  'exclude file': 'echo "*" >> $GIT/info/exclude',
  'the main branch': 'git update-ref refs/heads/main $(git commit-tree -m evil HEAD^{tree})',
  'deleted refs': 'rm -rf $GIT/refs/heads $GIT/packed-refs',
  'objects overwritten': 'find $GIT/objects -type f | while read f; do chmod u+w $f; echo evil > $f; done',
  'borrowed objects': 'echo /etc > $GIT/objects/info/alternates',
  'replaced objects': 'git replace HEAD $(git commit-tree -m evil HEAD^{tree})',
  'HEAD of the main checkout': 'echo "ref: refs/heads/evil" > $GIT/HEAD',
  'index of the main checkout': 'echo evil > $GIT/index',
  'another worktree':
    'for tree in $GIT/worktrees/*; do echo "ref: refs/heads/evil" > $tree/HEAD; echo /etc/passwd > $tree/gitdir; done',
  'its own gitdir file': 'echo "gitdir: /etc" > .git; rm .git; ln -s /etc .git',
  'all of it': 'rm -rf $GIT/* 2>/dev/null; true',
}

let bench: Bench
let meta: InvocationMeta
const gitDir = () => join(bench.project, '.git')
const canary = () => join(bench.base, 'canary')
const prelude = () =>
  `GIT=${gitDir()}; CANARY=${canary()}; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `

async function makeRepository(folder: string): Promise<void> {
  const identity = ['-c', 'user.name=u', '-c', 'user.email=u@v']
  for (const args of [
    ['init', '-q', '-b', 'main'],
    ['add', '-A'],
    ['commit', '-q', '-m', 'first'],
  ]) {
    await execute('git', ['-C', folder, ...identity, ...args])
  }
}

beforeAll(async () => {
  bench = await Bench.create({ 'a.txt': 'one\n' })
  await makeRepository(bench.project)
  await bench.client.call('worktree.create', { repo: bench.project, name: 'feature' })
})
afterAll(() => bench[Symbol.asyncDispose]())

async function startAndRun(script: string) {
  meta = await bench.client.call('agent.start', { worktree: 'feature' })
  const before = await fingerprint(gitDir())
  const id = await bench.spawn(prelude() + script, { invocation: meta.invocation_id })
  const ended = await bench.ended(id)
  return { id, ended, before, after: await fingerprint(gitDir()) }
}

describe.each(Object.entries(attacks))('an attack on %s', (_name, script) => {
  test('from a worktree sandbox changes no byte of the repository of the user', async () => {
    const { id, ended, before, after } = await startAndRun(`${script}; echo attacked > a.txt; echo done`)
    expect(await bench.output(id)).toContain('done')
    expect(ended).toMatchObject({ status: 'completed' })
    expect(after).toBe(before)
    await expect(access(canary())).rejects.toMatchObject({ code: 'ENOENT' })
    // What it did to its files is still there for review, whatever it did to git.
    expect((await bench.client.call('changeset.get', { id })).files.map((file) => file.path)).toContain(
      'a.txt',
    )
    await bench.client.call('agent.discard', { id })
    await expect(access(canary())).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

test('an agent with the real files of a linked worktree changes no byte of the repository that it shares, and is told so', async () => {
  await using own = await Bench.create({ 'a.txt': 'one\n' })
  await makeRepository(own.project)
  const [shared, linked] = [join(own.project, '.git'), join(own.base, 'linked')]
  await execute('git', ['-C', own.project, 'worktree', 'add', '-q', linked])
  const before = await fingerprint(shared)
  const direct = (more: object = {}) => ({
    roots: [linked],
    sandbox_spec: JSON.stringify({ changeset: 'none', ...more }),
  })
  const { checks } = await own.client.call('dispatch.preflight', {
    agent: 'shell',
    prompt: 'true',
    ...direct(),
  })
  const told = expect.stringContaining(`${shared} is read-only inside`)
  expect(checks).toContainEqual(expect.objectContaining({ ok: true, detail: told }))

  const looks = 'git status --porcelain; git --no-pager log --format=%s; git commit -qam x || echo REFUSED'
  const tried = Object.values(attacks).map((attack) => `(${attack})`)
  const id = await own.spawn(
    `${prelude()}GIT=${shared}; echo mine > a.txt; ${looks}; ${tried.join('; ')}; echo done`,
    direct(),
  )
  const effective = sandboxEffectiveSchema.parse((await own.ended(id)).sandbox_effective)
  expect(await own.output(id)).toMatch(/ M a\.txt\s+first\s[^]*Read-only file system\s+REFUSED[^]*done/)
  expect(await fingerprint(shared)).toBe(before)
  expect(await readFile(join(linked, 'a.txt'), 'utf8')).toBe('mine\n')
  const { ok, checks: probed } = effective.declared_equals_actual ?? {}
  expect(ok).toBe(true)
  expect(probed?.find(({ name }) => name === `write ${shared}`)).toMatchObject({ declared: 'no', ok: true })
})

test('at level 0, where nothing is held, an agent with the real files of a linked worktree starts all the same', async () => {
  await using own = await Bench.create({ 'a.txt': 'one\n' })
  await makeRepository(own.project)
  const linked = join(own.base, 'linked')
  await execute('git', ['-C', own.project, 'worktree', 'add', '-q', linked])
  const sandbox_spec = JSON.stringify({ changeset: 'none', isolation: 'none' })
  const id = await own.spawn(`${prelude()}git commit -q --allow-empty -m bare`, {
    roots: [linked],
    sandbox_spec,
  })
  expect(await own.ended(id)).toMatchObject({ status: 'completed', exit_code: 0 })
})

test('the control: the same attacks do change a repository that the agent may write directly', async () => {
  await using open = await Bench.create({})
  // In a plain checkout the gitdir file is a folder.
  const chosen = Object.entries(attacks).filter(([name]) => name !== 'its own gitdir file')
  const folders = chosen.map((_, index) => join(open.project, String(index)))
  for (const folder of folders) {
    await mkdir(folder)
    await writeFile(join(folder, 'a.txt'), 'one\n')
    await makeRepository(folder)
    await execute('git', ['-C', folder, 'worktree', 'add', '-q', `${folder}-other`])
  }
  const before = await Promise.all(folders.map((folder) => fingerprint(join(folder, '.git'))))
  const script = chosen.map(
    ([, attack], index) => `(cd ${folders[index]}; GIT=$PWD/.git; ${attack.replaceAll(gitDir(), '$GIT')})`,
  )
  const id = await open.spawn(`${prelude()}${script.join('; ')}`, {
    sandbox_spec: JSON.stringify({ changeset: 'none' }),
  })
  await open.ended(id)
  for (const [index, [name]] of chosen.entries()) {
    expect(await fingerprint(join(folders[index]!, '.git')), name).not.toBe(before[index])
  }
})

test('commits come out of a repository in which the agent planted everything it could and broke the rest', async () => {
  const plant = Object.entries(attacks)
    .filter(([name]) =>
      [
        'hooks',
        'hooks path',
        'file system monitor',
        'filters',
        'external diff',
        'included configuration',
      ].includes(name),
    )
    .map(([, script]) => script)
    .join('; ')
  const { id, before, after } = await startAndRun(
    `git switch -q --detach; echo two > a.txt; git commit -qam "Honest work"; ${plant}; git config core.alternateRefsCommand "touch ${canary()}"; git config uploadpack.packObjectsHook "touch ${canary()}"; echo '[[[' >> $GIT/config`,
  )
  expect(after).toBe(before)
  // On no branch, and git inside answers nothing any more.
  const { commits: told } = await bench.client.call('changeset.get', { id })
  expect(told?.map(({ ref }) => ref)).toEqual(['HEAD'])
  const { commits } = await bench.client.call('agent.get', { id })
  expect(commits.map(({ subject }) => subject)).toEqual(['Honest work'])
  const { text } = await bench.client.call('agent.commit', { id, commit: commits[0]!.commit })
  expect(text).toContain('+two')
  await expect(access(canary())).rejects.toMatchObject({ code: 'ENOENT' })

  const landed = await bench.client.call('agent.land', { id, all: true, how: 'merge' })
  expect(landed).toMatchObject({ landed: true, applied: [{ path: 'a.txt' }] })
  expect(await readFile(join(landed.tree, 'a.txt'), 'utf8')).toBe('two\n')
  const log = await execute('git', ['-C', landed.tree, 'log', '--topo-order', '--format=%s', '-3'])
  expect(log.stdout).toMatch(/^Merge .*\nHonest work\nfirst\n$/)
  await expect(access(canary())).rejects.toMatchObject({ code: 'ENOENT' })
  // Neither its hooks nor its configuration came along.
  expect(await readFile(join(gitDir(), 'config'), 'utf8')).not.toContain('touch')
})

test('history that was rewritten, or names that are no refs, land nowhere', async () => {
  const { id, before, after } = await startAndRun(
    'echo three > a.txt; git commit -q --amend -am "Rewritten"; git branch -f main; git tag evil; git update-ref refs/heads/agency/feature-0000 HEAD',
  )
  expect(after).toBe(before)
  const main = await execute('git', ['-C', bench.project, 'log', '-1', '--format=%s', 'main'])
  expect(main.stdout).toBe('first\n')
  await bench.client.call('agent.discard', { id })
  const refs = await execute('git', ['-C', bench.project, 'for-each-ref', '--format=%(refname)'])
  for (const ref of refs.stdout.trim().split('\n')) {
    expect(ref).toMatch(/^refs\/(heads\/main|heads\/agency\/feature-[0-9a-f]{4}|orangery\/)/)
  }
  expect(refs.stdout).not.toContain('refs/tags')
  expect(refs.stdout).not.toContain('refs/heads/agency/feature-0000')
})

test('a link in the place of its worktrees leads the host nowhere when the sandbox is discarded and restored', async () => {
  const victim = join(bench.base, 'victim')
  // Whatever name git has for the worktree, the victim has one too.
  const names = ['tree', ...Array.from({ length: 40 }, (_, index) => `tree${index}`)]
  for (const name of names) await mkdir(join(victim, name), { recursive: true })
  const before = await fingerprint(victim)
  const { id } = await startAndRun(`rm -rf $GIT/worktrees; ln -s ${victim} $GIT/worktrees; echo x > a.txt`)
  const mount = meta.roots[1]?.mount
  const planted = join(mount?.kind === 'overlay' ? mount.upper : '', 'worktrees')
  expect(await readlink(planted)).toBe(victim)
  await bench.client.call('agent.discard', { id })
  // Git gives the name away, so that the restored one needs another.
  await bench.client.call('agent.start', { worktree: 'feature' })
  await bench.client.call('archive.restore', { id })
  expect(await readlink(planted)).toBe(victim)
  expect(await fingerprint(victim)).toBe(before)
})

test('a hostile checkout cannot make another repository of the user visible', async () => {
  await using other = await Bench.create({ 'a.txt': 'x\n' })
  const secret = join(bench.base, 'secret')
  await mkdir(secret)
  await execute('git', ['-C', secret, 'init', '-q'])
  await writeFile(join(secret, '.git', 'description'), 'confidential')
  await writeFile(join(other.project, '.git'), `gitdir: ${join(secret, '.git')}\n`)
  const id = await other.spawn(`cat ${join(secret, '.git', 'description')} || echo hidden`)
  await other.ended(id)
  expect(await other.output(id)).toContain('hidden')
  expect(await other.output(id)).not.toContain('confidential')
})

describe('a program that the agent names in the configuration of its repository', () => {
  /** Git asks a remote for an object that is not there, by the program it is told to reach it with. */
  const plant = [
    `cat > .git/evil.sh <<'X'\ncd "$(dirname "$0")/.."; cat .env >&2; sleep "1.$(cat tag)"; exit 1\nX`,
    'git config core.repositoryformatversion 1',
    'git config extensions.partialClone origin',
    'git config remote.origin.url ssh://x/y',
    'git config remote.origin.promisor true',
    'git config remote.origin.partialclonefilter blob:none',
    'git config ssh.variant simple',
    'git config core.sshCommand "sh $PWD/.git/evil.sh"',
    'echo two > a.txt',
    'git commit -qam "Honest work"',
    `echo ${'12'.repeat(20)} > .git/refs/heads/bad`,
  ].join('\n')
  const ask = 'git for-each-ref --format="%(objecttype)" || true'

  async function runAndWatch(script: string) {
    const tag = String(process.hrtime.bigint())
    await using own = await Bench.create({ 'a.txt': 'one\n', tag, '.gitignore': '.env\n' })
    await makeRepository(own.project)
    await writeFile(join(own.project, '.env'), 'SECRET=hunter2\n')
    const spec = JSON.stringify({ hide: ['.env'], limits: { timeout_s: 20 } })
    const id = await own.spawn(`${prelude()}${script}`, { sandbox_spec: spec })
    let isSeen = false
    const ended = own.ended(id).then(() => true)
    const moment = () => new Promise<false>((resolve) => setTimeout(() => resolve(false), 50))
    while (!(await Promise.race([ended, moment()]))) isSeen ||= (await processesWith(`1.${tag}`)).length > 0
    const notes: string[] = []
    for await (const { event } of own.client.open('dispatch.events', { id, follow: false }))
      if (event.type === 'Note') notes.push(event.text)
    const { commits } = await own.client.call('changeset.get', { id })
    return { isSeen, notes: notes.join('\n'), refs: commits?.map(({ ref }) => ref) }
  }

  test('does not run once the agent has ended, and its commits come all the same', async () => {
    const { isSeen, notes, refs } = await runAndWatch(plant)
    expect(isSeen).toBe(false)
    expect(notes).not.toContain('SECRET')
    expect(notes).toMatch(/commits of the agent are kept: .*heads\/main/)
    expect(refs).toEqual(['refs/heads/main'])
  })

  test('the control: is seen from outside where git is asked while the agent runs', async () => {
    expect((await runAndWatch(`${plant}\n${ask}`)).isSeen).toBe(true)
  })
})
