import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

const isThere = (shell: string) => spawnSync(shell, ['--version']).status === 0

async function install(place: Place, shell: 'zsh' | 'fish', file: string): Promise<string> {
  const { code, stdout } = await place.orangery('completion', shell)
  expect(code).toBe(0)
  const path = join(place.home, file)
  writeFileSync(path, stdout)
  return path
}

test('fish completes commands, their commands and their options', async (context) => {
  if (!isThere('fish')) return context.skip('fish is not installed')
  using place = new Place('launcher')
  const path = await install(place, 'fish', 'orangery.fish')
  const complete = (line: string) => {
    const script = 'source $argv[1]; complete -C $argv[2]'
    const { stdout } = spawnSync('fish', ['--no-config', '-c', script, path, line], { encoding: 'utf8' })
    return stdout.split('\n').flatMap((found) => (found === '' ? [] : [found.split('\t')[0]]))
  }
  expect(complete('orangery ch')).toEqual(['changeset'])
  expect(complete('orangery dispatch s').sort()).toEqual(['shell', 'spawn', 'status'])
  expect(complete('orangery run --mem')).toEqual(['--memory-mb'])
  expect(complete('orangery run -- --mem')).toEqual([])
})

type Pty = { write(data: string): void; onData(listener: (data: string) => void): void; kill(): void }
const { spawn } = createRequire(import.meta.url)('@lydell/node-pty') as {
  spawn(file: string, args: string[], options: object): Pty
}

test('zsh completes at the first press of the key, loaded from its folder of functions', async (context) => {
  if (!isThere('zsh')) return context.skip('zsh is not installed')
  using place = new Place('launcher')
  await install(place, 'zsh', '_orangery')
  const env = { ...place.env, TERM: 'dumb', PS1: '> ' }
  const shell = spawn('zsh', ['-f', '-i'], { cwd: place.home, env, cols: 120, rows: 30 })
  let screen = ''
  shell.onData((data) => (screen += data))
  const sees = (text: string) => expect.poll(() => screen, { timeout: 20_000 }).toContain(text)
  try {
    shell.write(`fpath=(${place.home} $fpath); autoload -U compinit; compinit -u -D; echo set-$((1 + 1))\n`)
    await sees('set-2')
    shell.write('orangery cha\t')
    await sees('orangery changeset ')
    shell.write('\u0015')
    shell.write('orangery dispatch stat\t')
    await sees('orangery dispatch status ')
    shell.write('\u0015')
    shell.write('orangery run --mem\t')
    await sees('orangery run --memory-mb ')
  } finally {
    shell.kill()
  }
})
