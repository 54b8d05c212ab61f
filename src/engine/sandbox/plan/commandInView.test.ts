import { execFile } from 'node:child_process'
import { mkdir, rmdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { checkCommand, tilde } from './commandInView.ts'
import { agentHome } from './etc.ts'
import { type Ground, lookAtHost, makeGround, startOn } from '../fixture.ts'
import type { HostFacts } from '../host/host.ts'

const execute = promisify(execFile)

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

/** Written by a process of its own: one that is forked here meanwhile would hold it open, and it would be busy. */
async function program(path: string, mode = '755', text = '#!/bin/sh\necho started\n'): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(`${path}.text`, text)
  await execute('install', ['-m', mode, `${path}.text`, path])
}

type Case = readonly [command: string, changes: Partial<SandboxRequest>, why: string | null]

/** What preflight says of each, and whether the sandbox agrees. */
async function compare(ground: Ground, cases: readonly Case[]): Promise<void> {
  for (const [command, changes, why] of cases) {
    const request = ground.request([command], changes)
    const [fault] = await checkCommand(request, host, true)
    const { sandbox, finish } = await startOn(ground, request, host)
    sandbox.release()
    const { unstartable } = await finish()
    const told = fault === undefined ? null : expect.stringContaining(why ?? 'nothing')
    expect({ command, unstartable, fault: fault?.detail ?? null }).toEqual({
      command,
      unstartable: why !== null,
      fault: why === null ? null : told,
    })
    if (fault !== undefined) expect(fault.fix).toBeTruthy()
  }
}

test('preflight says of a command what the sandbox would, with the reason', async () => {
  await using ground = await makeGround()
  const { folder, root } = ground
  const [bin, tools] = [join(folder, 'ann/bin'), join(folder, 'ann/tools')]
  await program(join(bin, 'own'))
  await program(join(bin, 'flat'), '644')
  await program(join(tools, 'kept'))
  await program(join(root, 'script'))
  await symlink(join(tools, 'kept'), join(bin, 'led'))
  await symlink('../tools/kept', join(bin, 'near'))
  await symlink('own', join(bin, 'beside'))
  await symlink('nowhere', join(bin, 'broken'))
  await symlink('loop', join(bin, 'loop'))
  await compare(ground, [
    ['true', {}, null],
    ['/bin/true', {}, null],
    ['./script', {}, null],
    [join(root, 'script'), {}, null],
    ['./missing', {}, 'is not there'],
    ['no-such-agent-xyz', {}, 'neither on PATH inside nor on yours'],
    [join(bin, 'own'), {}, 'is not shown in the sandbox'],
    ['own', { grants: [bin] }, null],
    [join(bin, 'own'), { grants: [bin] }, null],
    ['beside', { grants: [bin] }, null],
    ['led', { grants: [bin] }, `leads to ${tilde(join(tools, 'kept'))}, which is not shown`],
    ['near', { grants: [bin] }, `leads to ${tilde(join(tools, 'kept'))}, which is not shown`],
    ['led', { grants: [bin, tools] }, null],
    [join(bin, 'led'), { grants: [join(bin, 'led')] }, null],
    ['broken', { grants: [bin] }, 'is not there'],
    ['loop', { grants: [bin] }, 'is not there'],
    [join(bin, 'flat'), { grants: [bin] }, 'is not executable'],
  ])
})

test('a program of the user’s own PATH that is not shown, or shown and not on PATH, is told with what to grant', async () => {
  await using ground = await makeGround()
  const bin = join(ground.folder, 'ann/bin')
  await program(join(bin, 'own'))
  const before = process.env['PATH']
  process.env['PATH'] = `${before}:${bin}`
  try {
    await compare(ground, [
      ['own', {}, `${tilde(join(bin, 'own'))} is not shown`],
      ['own', { grants: [join(bin, 'own')] }, 'is shown, but its folder is not on PATH inside'],
    ])
    const [fault] = await checkCommand(ground.request(['own']), host, true)
    expect(fault?.fix).toContain(`Add "${tilde(bin)}" to sandboxRequirements.read`)
  } finally {
    process.env['PATH'] = before
  }
})

test('a script that is run by what is not shown is told with it', async () => {
  await using ground = await makeGround()
  const { folder } = ground
  const bin = join(folder, 'ann/bin')
  await program(join(folder, 'ann/node/bin/node-of-ann'))
  const cases = [
    [`${folder}/ann/node/bin/node-of-ann`, 'is not shown in the sandbox'],
    ['/usr/bin/env node-of-ann', 'neither on PATH inside nor on yours'],
    ['/usr/bin/env -S A=1 sh -e', null],
    ['/bin/sh -e', null],
  ] as const
  for (const [line, why] of cases) {
    // No name that the system has too: a shell goes on to the next of its kind on PATH (`script` of util-linux did).
    await program(join(bin, 'run-by-line'), '755', `#!${line}\nexit 0\n`)
    const request = ground.request(['run-by-line'], { grants: [bin] })
    const [fault] = await checkCommand(request, host, true)
    const { sandbox, finish } = await startOn(ground, request, host)
    sandbox.release()
    const end = await finish()
    expect({ line, exitCode: end.exitCode, lost: end.lost }).toEqual({
      line,
      exitCode: why === null ? 0 : 127,
      lost: null,
    })
    expect(fault?.detail ?? null).toEqual(why === null ? null : expect.stringContaining(why))
  }
})

test('what nobody can know before it runs is not held against a command', async () => {
  await using ground = await makeGround()
  const request = ground.request(['./made-by-an-earlier-turn'])
  expect(await checkCommand(request, host, true)).toHaveLength(1)
  expect(await checkCommand(request, host, false)).toEqual([])
})

test('a user whose home is where the agent’s own will be is shown the roots and grants in it', async () => {
  await using ground = await makeGround()
  const { root, home } = ground
  await program(join(root, 'script'))
  const { workspace } = ground.request(['true'])
  const target = `${agentHome}/project`
  const roots = workspace.roots.map((one) => ({
    ...one,
    target,
    mount: { kind: 'bind', source: root } as const,
  }))
  const copied = { ...workspace, strategy: 'clone', driver: 'plain-copy', roots } as const
  const changes = { workspace: copied, cwd: target }
  // At preflight there is no home yet.
  await rmdir(home)
  expect(await checkCommand(ground.request(['./script'], changes), host, true)).toEqual([])
  const [fault] = await checkCommand(ground.request([`${agentHome}/tool`], changes), host, true)
  expect(fault?.detail).toContain('is not there')
  await mkdir(home)
  await compare(ground, [['./script', changes, null]])
})
