import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'
import { filesBelow } from '../cli/traces.ts'

/** A repository with an integration worktree, and a git that says when it fills a tree and takes its time for it. */
async function slowGround(place: Place) {
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', place.folder, ...args], { env: place.env, encoding: 'utf8' }).trim()
  writeFileSync(join(place.home, '.gitconfig'), '[user]\nname = u\nemail = u@v\n')
  git('init', '-q', '-b', 'main')
  writeFileSync(join(place.folder, 'a.txt'), 'one\n')
  git('add', '-A')
  git('commit', '-q', '-m', 'first')
  const made = await place.orangery('worktree', 'create', '--repo', '.', '--name', 'feature')
  expect(made.code, made.stderr).toBe(0)
  const real = execFileSync('which', ['git'], { encoding: 'utf8' }).trim()
  const reached = join(place.home, 'reached')
  const script = `#!/bin/sh\ncase " $* " in *" reset "*) : > '${reached}'; sleep 1;; esac\nexec '${real}' "$@"\n`
  mkdirSync(join(place.home, 'bin'))
  writeFileSync(join(place.home, 'bin', 'git'), script, { mode: 0o755 })
  const state = () => ({
    branches: git('for-each-ref', '--format=%(refname) %(objectname)'),
    worktrees: git('worktree', 'list', '--porcelain'),
    files: filesBelow(join(place.dataDir, 'repos')).filter((path) => !path.includes('/locks/')),
  })
  return { state, reached, env: { PATH: `${join(place.home, 'bin')}:${place.env['PATH']}` } }
}

const commands = {
  'agent start': ['agent', 'start', '--worktree', 'feature'],
  'worktree create': ['worktree', 'create', '--repo', '.', '--name', 'second'],
} as const
const interrupts = [
  ['SIGINT', 'of a terminal, which its git hears too,', 130],
  ['SIGINT', 'to it alone', 130],
  ['SIGTERM', 'to it alone', 143],
] as const

for (const [what, words] of Object.entries(commands))
  test.each(interrupts)(`${what}: %s %s takes everything back`, async (signal, who, code) => {
    using place = new Place('launcher')
    const { state, reached, env } = await slowGround(place)
    const before = state()
    // It leads a group of its own, as a command on a terminal does.
    const child = place.start({ env, through: ['setsid'] }, ...words)
    child.stdin.end()
    const end = ended(child)
    await expect.poll(() => existsSync(reached)).toBe(true)
    // The control: there is something to take back.
    expect(state()).not.toEqual(before)
    process.kill(who.startsWith('of a terminal') ? -child.pid! : child.pid!, signal)
    const { code: ending, stdout, stderr } = await end
    expect({ ending, stdout, stderr }).toMatchObject({
      ending: code,
      stdout: '',
      stderr: expect.stringMatching(
        new RegExp(`^orangery: ${what}: it was interrupted, and what was made is taken back\n  hint: .*\n$`),
      ),
    })
    expect(state()).toEqual(before)
    const log = join(place.dataDir, 'orangery.log')
    expect(existsSync(log) ? readFileSync(log, 'utf8') : '').not.toContain('clean-up of')
    // It can be asked for again, and nobody holds the lock.
    expect((await place.orangery(...words)).code).toBe(0)
    const listed = await place.orangery('agent', 'ls', '--all', '--json')
    expect((JSON.parse(listed.stdout) as { broken: boolean }[]).filter(({ broken }) => broken)).toEqual([])
  })
