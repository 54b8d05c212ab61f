import { afterEach, expect, test, vi } from 'vitest'
import type { DispatchDetail } from '../shared/dispatch.ts'
import { sandboxEffectiveSchema } from '../shared/effective.ts'
import { Denials } from './outputs.ts'

afterEach(() => void vi.restoreAllMocks())

function listen(): string[] {
  const said: string[] = []
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => said.push(String(text)) > 0)
  return said
}
const refused = (host: string) => ({ host, why: 'not in the list of allowed hosts' })

test('whatever is refused is told each time, also past the fifth host and to who tries one again, up to sixty lines a minute', () => {
  const said = listen()
  const denials = new Denials()
  const hosts = [...'abcdefga'].map((letter) => `${letter}.example`)
  for (const host of hosts) denials.tell('ID', refused(host))
  expect(said).toEqual(
    hosts.map((host) => `orangery: ID: ${host} was not reached: not in the list of allowed hosts\n`),
  )
  for (let turn = 0; turn < 100; turn++) denials.tell('ID', refused(`h${turn}.example`))
  expect(said).toHaveLength(60)
})

test('the end names what was not told yet, the first five of it, and no host twice', () => {
  const said = listen()
  const denials = new Denials()
  denials.tell('ID', refused('told.example'))
  const denied = ['told.example', ...[...'abcdefg'].map((letter) => `${letter}.example`)].map((host) => ({
    ...refused(host),
    connections: 1,
  }))
  const network = { allowed: [], denied }
  vi.spyOn(sandboxEffectiveSchema, 'safeParse').mockReturnValue({ success: true, data: { network } } as never)
  denials.sumUp({ id: 'ID', sandbox_effective: {} } as DispatchDetail)
  expect(said.filter((line) => line.includes('told.example was'))).toHaveLength(1)
  expect(said.filter((line) => line.includes(' was not reached'))).toHaveLength(6)
  expect(said).toContain('orangery: ID: nor were 2 other hosts\n')
})

const effective = {
  tools_used: [],
  access_mode: 'workspace-write',
  turns_used: 0,
  commands_used: 0,
  violations: [],
  level: 1,
  driver: 'bubblewrap 0.8.0',
  workspace: 'kernel-overlay',
  boundary_history: [],
  resources: { wall_ms: 1, cpu_ms: 1, max_rss_mb: 1, disk_mb: 1 },
  declared_equals_actual: { ok: true, checks: [] },
}

test('the closing hint of a run names the hosts that an option would open, and none that the policy keeps shut', () => {
  const said = listen()
  const denied = (host: string, why: string) => ({ host, connections: 1, why })
  const network = {
    allowed: [],
    denied: [
      denied('missing.test', 'outputs are none'),
      denied('refused.test', 'outputs are none; a person said no: use the mirror'),
      denied('shut.test', 'outputs are none; The policy allows readonly at most, and no host.'),
      denied('forbidden.test', 'denied by the rule forbidden.test'),
    ],
  }
  const detail = { id: '20260101120000-aaaa', sandbox_effective: { ...effective, network } }
  new Denials().sumUp(detail as unknown as DispatchDetail)
  expect(said).toHaveLength(5)
  expect(said.at(-1)).toMatch(/^ {2}hint: --allow-host missing\.test --allow-host refused\.test, or answer/)
})
