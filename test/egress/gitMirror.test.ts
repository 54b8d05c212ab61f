import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

function makeRepository(folder: string, remote: string): string {
  const git = (...args: string[]) => execFileSync('git', ['-C', folder, ...args])
  mkdirSync(folder)
  git('init', '-q', '-b', 'main')
  git('-c', 'user.name=t', '-c', 'user.email=t@example.org', 'commit', '-q', '--allow-empty', '-m', 'first')
  git('remote', 'add', 'origin', remote)
  git('update-server-info')
  return folder
}

test("git inside goes to the mirror that the user's own git is configured for, without its password, when @git is granted and not otherwise", async () => {
  using place = new Place()
  const work = makeRepository(join(place.home, 'a'), 'http://public.example/team/a.git')
  const asked: string[] = []
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '', 'http://x').pathname
    asked.push(`${request.headers.host ?? ''}${path} ${request.headers.authorization ?? 'nobody'}`)
    readFile(join(work, '.git', path.replace('/m/a.git/', ''))).then(
      (bytes) => response.end(bytes),
      () => response.writeHead(404).end(),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  writeFileSync(
    join(place.home, '.gitconfig'),
    '[url "http://ada:s3cret@mirror.example/m/"]\n insteadOf = http://public.example/team/\n',
  )
  const pin = `mirror.example:80=127.0.0.1:${(server.address() as AddressInfo).port}`
  const run = (...args: string[]) => {
    const env = { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'alias.list', GIT_CONFIG_VALUE_0: 'ls-remote' }
    return place.orangeryWith({ cwd: work, env }, 'run', '--allow-host', pin, ...args)
  }
  const list = ['--', 'git', 'ls-remote', 'origin']
  const granted = await run('--allow-host', '@git', ...list)
  expect(granted, granted.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('refs/heads/main'),
  })
  expect(granted.stderr).toContain('url.http://mirror.example/m/.insteadOf=http://public.example/team/')
  expect(granted.stderr).not.toContain('s3cret')
  expect(asked).toContain('mirror.example/m/a.git/info/refs nobody')
  // Beside settings that the user passes by name.
  const names = ['COUNT', 'KEY_0', 'VALUE_0'].flatMap((name) => ['--env', `GIT_CONFIG_${name}`])
  const both = await run('--allow-host', '@git', ...names, '--', 'git', 'list', 'origin')
  expect(both, both.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('refs/heads/main') })
  asked.length = 0
  const refused = await run(...list)
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain('public.example was not reached')
  expect(asked).toEqual([])
  server.close()
  server.closeAllConnections()
})
