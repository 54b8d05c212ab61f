import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { movedSubmodules, submoduleStays } from './gitlinks.ts'

const identity = ['-c', 'user.name=u', '-c', 'user.email=u@x', '-c', 'protocol.file.allow=always']
const git = (at: string, ...args: string[]) =>
  execFileSync('git', ['-C', at, ...identity, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim()
const commit = (at: string) => {
  git(at, 'add', '-A')
  git(at, 'commit', '-qm', 'one')
  return git(at, 'rev-parse', 'HEAD')
}

const name = "it's $(a) lib"
let base: string
let project: string
let lib: string
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'orangery-gitlinks-'))
  const source = join(base, 'source')
  project = join(base, 'the project')
  lib = join(project, name)
  for (const at of [source, project]) {
    mkdirSync(at)
    git(at, 'init', '-q', '-b', 'main')
    for (const file of ['a', 'b', 'gone']) writeFileSync(join(at, file), `${file}\n`)
    commit(at)
  }
  git(project, 'submodule', '-q', 'add', source, name)
  commit(project)
})
afterEach(() => rmSync(base, { recursive: true, force: true }))

/** Makes a commit in the submodule that nothing there stands on, as one of an agent's that was imported. */
function agentCommit(): string {
  const at = join(base, 'agent')
  git(base, 'clone', '-q', lib, at)
  writeFileSync(join(at, 'a'), 'changed\n')
  writeFileSync(join(at, 'new'), 'new\n')
  rmSync(join(at, 'gone'))
  const oid = commit(at)
  git(lib, 'fetch', '-q', at, `${oid}:refs/orangery/x/HEAD`)
  return oid
}
const told = (to: string) => submoduleStays(name, { to, wasThere: true }, project)
const printed = (to: string) => /once this has landed: ([^]*)$/.exec(told(to))?.[1] ?? ''
const runPrinted = (to: string) => spawnSync('sh', ['-c', printed(to)], { encoding: 'utf8', cwd: base })
const read = (file: string) => readFileSync(join(lib, file), 'utf8')

describe('the command by which a submodule goes along', () => {
  test('works once the files have landed, and leaves every file, branch and commit of the user as it is', () => {
    const to = agentCommit()
    writeFileSync(join(lib, 'own'), 'own\n')
    const own = commit(lib)
    for (const [file, text] of [
      ['a', 'changed\n'],
      ['new', 'new\n'],
      ['b', 'edited by the user\n'],
    ] as const)
      writeFileSync(join(lib, file), text)
    rmSync(join(lib, 'gone'))
    // The control: what git offers itself does not go.
    expect(() => git(lib, 'checkout', to)).toThrow('overwritten')
    expect(runPrinted(to)).toMatchObject({ status: 0, stderr: '' })
    expect(git(lib, 'rev-parse', 'HEAD')).toBe(to)
    expect(git(project, 'ls-files', '--stage', '--', name)).toContain(`160000 ${to}`)
    expect([read('a'), read('b'), read('new'), read('own')]).toEqual([
      'changed\n',
      'edited by the user\n',
      'new\n',
      'own\n',
    ])
    expect(git(lib, 'status', '--short')).toBe('M b\n?? own')
    expect(git(lib, 'rev-parse', 'main')).toBe(own)
  })

  test('never moves the project where the submodule is not set up', () => {
    const to = git(project, 'rev-parse', 'HEAD^')
    const before = git(project, 'rev-parse', 'HEAD')
    git(project, 'submodule', '-q', 'deinit', '--', name)
    // The control: there git finds the project.
    expect(git(lib, 'rev-parse', 'HEAD')).toBe(before)
    expect(runPrinted(to).status).not.toBe(0)
    expect(git(project, 'rev-parse', 'HEAD')).toBe(before)
    expect(git(project, 'symbolic-ref', 'HEAD')).toBe('refs/heads/main')
  })

  test('is not given for a submodule that the agent added, nor where its checkout is not known', async () => {
    const before = git(project, 'rev-parse', 'HEAD^')
    const [[path, added]] = [...(await movedSubmodules(before, 'HEAD', { cwd: project }))] as [
      [string, { to: string; wasThere: boolean }],
    ]
    expect([path, added.wasThere]).toEqual([name, false])
    expect(submoduleStays(path, added, project)).not.toContain('git -C')
    expect(submoduleStays(path, { ...added, wasThere: true }, null)).not.toContain('git -C')
  })
})
