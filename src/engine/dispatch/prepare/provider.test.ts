import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { agentCardSchema } from '../../../shared/card.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { detectHost, type HostFacts } from '../../sandbox/index.ts'
import { defaultConfig, resolveContract } from '../../policy/index.ts'
import { checkHost, resolveAgent } from './provider.ts'

const card = agentCardSchema.parse({ id: 'claude', name: 'Claude' })
let host: HostFacts
let dataDir: string
beforeAll(async () => {
  // Not the folder that all share: what root leaves there an ordinary user could not use.
  dataDir = await mkdtemp(join(tmpdir(), 'orangery-provider-'))
  host = await detectHost(dataDir)
})
afterAll(() => rm(dataDir, { recursive: true, force: true }))

const request: SandboxRequest = {
  id: '20260101000000-0000' as DispatchId,
  level: 1,
  workspace: {
    id: '20260101000000-0000' as DispatchId,
    repoId: '0123456789abcdef' as RepoId,
    strategy: 'none',
    driver: 'direct',
    dir: '/data',
    roots: [],
    createdAtMs: 0,
  },
  command: ['true'],
  cwd: '/',
  env: {},
  files: 'rw',
  writableFiles: [],
  network: 'none',
  limits: {},
  grants: [],
  home: '/data',
  hide: [],
  secretDirs: [],
  terminal: false,
}

const contract = (sandboxEnabled: boolean) =>
  resolveContract({
    spec: null,
    legacySandbox: null,
    card,
    phase: null,
    role: null,
    roots: ['/shop'],
    config: { ...defaultConfig(), sandboxEnabled },
    parent: null,
  })

test('sandboxing on gives the wrapped agent, off the bare one, for the same card', () => {
  expect(resolveAgent(card, contract(true), host)).toMatchObject({ id: 'claude', level: 1, isWrapped: true })
  expect(resolveAgent(card, contract(false), host)).toMatchObject({
    id: 'claude',
    level: 0,
    isWrapped: false,
  })
})

test('an agent is available where the host has what its level needs, and says what helps where not', () => {
  const bare = { ...host, tools: { ...host.tools, bwrap: null }, bubblewrap: null }
  expect(resolveAgent(card, { level: 1 }, host).isAvailable(request)).toMatchObject({
    check: { ok: true },
    lesser: [],
  })
  const missing = resolveAgent(card, { level: 1 }, bare).isAvailable(request).check
  expect(missing).toMatchObject({ ok: false, fix: expect.stringContaining('bubblewrap') })
  const free = { ...request, network: 'host' as const }
  expect(resolveAgent(card, { level: 0 }, bare).isAvailable(free)).toMatchObject({ check: { ok: true } })
})

test('what the host lacks is said also where it is not known yet what shall run there', () => {
  const bare = { ...host, tools: { ...host.tools, bwrap: null, find: null }, bubblewrap: null }
  expect(checkHost({ level: 1, limits: {} }, host)).toEqual([])
  expect(checkHost({ level: 0, limits: {} }, { ...bare, tools: { ...host.tools, bwrap: null } })).toEqual([])
  expect(checkHost({ level: 1, limits: {} }, bare)).toMatchObject([
    { ok: false, detail: expect.stringMatching(/^find: .*; bwrap: /) as string },
  ])
})
