import { expect, test } from 'vitest'
import { commandRefusal, commandsOfCall, commandsOfLine, refuseCommand } from './commands.ts'

test('the commands of a line are read through assignments, starters, quotes, lists and substitutions', () => {
  expect(commandsOfLine('A=1 sudo git push; (cd "my dir" && make -j2) | tee log')).toEqual([
    'git push',
    'cd my dir',
    'make -j2',
    'tee log',
  ])
  expect(commandsOfLine('if curl -s a; then echo $(rm -rf b); fi')).toEqual([
    'curl -s a',
    'echo $',
    'rm -rf b',
    'fi',
  ])
  expect(commandsOfLine(`bash -ec 'git push "a b"'`)).toEqual([`bash -ec git push "a b"`, 'git push a b'])
})

test('a call is one program with its words, not a line', () => {
  expect(commandsOfCall(['echo', 'a; git push'])).toEqual(['echo a; git push'])
  expect(commandsOfCall(['/usr/bin/git', 'push'])).toEqual(['git push'])
  expect(commandsOfCall([])).toEqual([])
})

test('a denied command is named by its first words, and only by whole ones', () => {
  const list = { allow: null, deny: ['git  push', 'curl'] }
  expect(commandRefusal(list, 'git push origin')).toBe('git push: denied at this boundary')
  expect(commandRefusal(list, 'git pushy')).toBeNull()
  expect(commandRefusal(list, 'curlie')).toBeNull()
  expect(commandRefusal(list, 'git pull')).toBeNull()
})

test('with an allow list everything else is refused but what a shell does itself; a denial wins', () => {
  const list = { allow: ['npm', 'git'], deny: ['git push'] }
  expect(commandRefusal(list, 'npm test')).toBeNull()
  expect(commandRefusal(list, 'cd x')).toBeNull()
  expect(commandRefusal(list, 'sh -c npm test')).toBeNull()
  expect(commandRefusal(list, 'git push')).toContain('denied')
  expect(commandRefusal(list, 'rm -rf x')).toBe('rm: not among the commands this boundary allows')
})

test('what a dispatch starts with is refused by policy; what its script may do later is not', () => {
  const list = { allow: null, deny: ['curl'] }
  const refused = expect.objectContaining({ code: 'policy.command', exitCode: 77 })
  for (const command of [['curl', 'a.test'], ['/usr/bin/curl'], ['env', 'A=1', 'curl', 'a.test']]) {
    expect(() => refuseCommand(list, command, 'readwrite')).toThrow(refused)
  }
  expect(() => refuseCommand(list, ['wget', 'curl'], 'readwrite')).not.toThrow()
  expect(() => refuseCommand(list, ['sh', '-c', 'sleep 9; curl a.test'], 'readwrite')).not.toThrow()
})
