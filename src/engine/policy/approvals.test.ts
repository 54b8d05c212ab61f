import { describe, expect, test } from 'vitest'
import type { EffectiveApproval } from '../../shared/config.ts'
import type { Contract } from '../base/contract.ts'
import type { EscalationState } from '../base/escalation.ts'
import { savedApprovalsFor } from './approvals.ts'
import { defaultConfig } from './config/merge.ts'
import { approveRequests, narrowBoundary, undoGrant } from './answers.ts'
import { networkAt } from './capabilities.ts'
import { approveStanding, fileRequest, type Asking } from './escalation.ts'
import { current, opensGrantedOnly } from './step.ts'
import { approval, asking, context, fresh, later, start } from './fixture.ts'

describe('a saved approval', () => {
  const fits = (saved: EffectiveApproval, ask: Partial<Asking> = {}, roots = ['/projects/a']) =>
    savedApprovalsFor(fresh(), { to: 'network', hosts: ['registry.test:443'], ...ask } as never, {
      ...context({ sandboxApprovedEscalations: [saved] }),
      roots,
    }) !== null

  test.each(['prompt', 'auto'] as const)(
    'skips the prompt under the policy %s',
    (sandboxEscalationPolicy) => {
      const config = { sandboxEscalationPolicy, sandboxApprovedEscalations: [approval()] }
      const { state, effects, result } = fileRequest(fresh(), asking({ source: 'agent' }), context(config))
      expect(result).toMatchObject({
        status: 'approved',
        answer: { way: 'saved', by: 'saved approval abc (user)' },
      })
      expect(current(state)).toMatchObject({ level: 'network', hosts: ['registry.test:443'] })
      expect(effects.map(({ kind }) => kind)).toEqual(['tell', 'apply'])
    },
  )

  test('covers its agent, level, hosts, folders and time, and nothing beside them', () => {
    expect(fits(approval())).toBe(true)
    expect(fits(approval({ agent: '*' }))).toBe(true)
    expect(fits(approval({ agent: 'codex' }))).toBe(false)
    expect(fits(approval({ level: 'readwrite' }))).toBe(false)
    expect(fits(approval({ level: 'full', hosts: [] }))).toBe(true)
    expect(fits(approval({ hosts: [] }))).toBe(false)
    expect(fits(approval({ hosts: ['registry.test:80'] }))).toBe(false)
    expect(fits(approval({ hosts: ['*.registry.test'] }))).toBe(false)
    expect(fits(approval({ phase: 'plan' }))).toBe(false)
    expect(fits(approval({ phase: 'build' }))).toBe(true)
    expect(fits(approval({ covers: ['/projects/a'] }))).toBe(true)
    expect(fits(approval({ covers: ['/projects'] }))).toBe(true)
    expect(fits(approval({ covers: ['/projects/ab'] }))).toBe(false)
    expect(fits(approval({ covers: [] }))).toBe(false)
    expect(fits(approval({ expires: start.toISOString() }))).toBe(false)
    expect(fits(approval({ expires: later(1).toISOString() }))).toBe(true)
    expect(fits(approval(), {}, [])).toBe(false)
  })

  test('of one project does not speak for a second root, two of them do', () => {
    const a = approval({ covers: ['/projects/a'], source: 'project' })
    const b = approval({ covers: ['/projects/b'], source: 'project', id: 'def' })
    const wish = { to: 'network' as const, hosts: ['registry.test'] }
    const both = (saved: EffectiveApproval[]) => ({
      ...context({ sandboxApprovedEscalations: saved }),
      roots: ['/projects/a', '/projects/b'],
    })
    expect(savedApprovalsFor(fresh(), wish, both([a]))).toBeNull()
    expect(savedApprovalsFor(fresh(), wish, both([a, b]))).toEqual([a, b])
  })

  test('with ports answers a program that only asked for the name, with these ports and no other', () => {
    const named = (more: Partial<Asking> = {}) => asking({ hosts: ['registry.test'], ...more })
    const saved = [
      approval({ hosts: ['registry.test:443', 'other.test:25'] }),
      approval({ hosts: ['*.test:8080'], id: 'def' }),
      approval({ hosts: ['registry.test:22'], agent: 'codex' }),
    ]
    const known = context({ sandboxApprovedEscalations: saved })
    const { state, result } = fileRequest(fresh(), named(), known)
    expect(result).toMatchObject({
      status: 'approved',
      hosts: ['registry.test:443', 'registry.test:8080'],
      answer: { way: 'saved', by: 'saved approval abc (user), saved approval def (user)' },
    })
    expect(current(state).hosts).toEqual(['registry.test:443', 'registry.test:8080'])
    const ofAuto = {
      sandboxEscalationPolicy: 'auto' as const,
      sandboxAutoEscalation: { hosts: ['registry.test:8080'], roots: ['/projects'] },
    }
    expect(fileRequest(fresh(), named(), context(ofAuto)).result).toMatchObject({
      status: 'approved',
      hosts: ['registry.test:8080'],
      answer: { way: 'auto' },
    })
    // Who names the host itself asks for all of it.
    expect(fileRequest(fresh(), named({ source: 'agent' }), known).result.status).toBe('open')
    const denied = { ...known, denies: ['registry.test:443'] }
    expect(fileRequest(fresh(), named(), denied).result.hosts).toEqual(['registry.test:8080'])
    const waiting = fileRequest(fresh(), named(), context()).state
    expect(current(approveStanding(waiting, known).state).hosts).toEqual([
      'registry.test:443',
      'registry.test:8080',
    ])
  })

  test('that appears while the request is open answers it', () => {
    const { state, result } = fileRequest(fresh(), asking(), context())
    expect(approveStanding(state, context()).result).toEqual([])
    const step = approveStanding(state, context({ sandboxApprovedEscalations: [approval()] }))
    expect(step.result).toMatchObject([{ id: result.id, status: 'approved' }])
    expect(current(step.state)).toMatchObject({ level: 'network', hosts: ['registry.test:443'] })
  })
})

test('a yes to a host, saved or for the task, changes no files and opens no other host', () => {
  const named = { level: 'network', hosts: ['registry.test'] } as const
  const task = {
    ...named,
    hosts: [...named.hosts],
    id: 't',
    task: fresh().task,
    agent: 'claude',
    by: 'person',
    at: start.toISOString(),
    revoked_at: null,
  }
  const saved = context({
    sandboxApprovedEscalations: [approval(), approval({ level: 'full' })],
  })
  const ways = [
    [fresh({ start: 'readonly', phase: 'plan' }), saved],
    [fresh({ start: 'readonly', phase: 'plan', taskApprovals: [task] }), context()],
  ] as const
  for (const [state, known] of ways) {
    const status = (more: Partial<Asking>, from = state) =>
      fileRequest(from, asking({ source: 'agent', ...more }), known).result.status
    expect(status({ to: 'readwrite', hosts: [] })).toBe('open')
    expect(status({ to: 'network' })).toBe('open')
    expect(status({ to: 'network', hosts: [] }, { ...state, start: 'readwrite' })).toBe('open')
    expect(status({ to: 'full' }, { ...state, start: 'readwrite' })).toBe('open')
    // The control: the host itself, with the files as they are.
    expect(status({ to: 'readonly' })).toBe('approved')
    expect(status({ to: 'network' }, { ...state, start: 'readwrite' })).toBe('approved')
  }
})

test('after a narrowing a yes to one host opens that host, and the contract’s own come with a yes that names none', () => {
  const narrowing = { to: 'readwrite' as const, by: 'person', why: '', way: 'narrowed' as const }
  const yes = { requests: null, by: 'person', message: '', scope: 'once' } as const
  const step = (state: EscalationState, hosts: string[]) => {
    const filed = fileRequest(state, asking({ source: 'user', hosts }), context())
    return approveRequests(filed.state, yes, context()).state
  }
  const wide = fresh({ start: 'network' })
  expect(opensGrantedOnly(wide)).toBe(false)
  const narrowed = narrowBoundary(wide, narrowing, { at: start }).state
  const one = step(narrowed, ['a.test:1'])
  expect(current(one)).toMatchObject({ level: 'network', hosts: ['a.test:1'] })
  expect(opensGrantedOnly(one)).toBe(true)
  const outputs = { mode: 'open', allow: ['b.test'], deny: [], pins: { 'b.test': '127.0.0.1:1' } } as const
  const contract = {
    outputs: { ...outputs, always: [], readOnly: false, declared: true },
  } as unknown as Contract
  expect(networkAt(contract, 'network', ['a.test:1'], defaultConfig(), true)).toMatchObject({
    mode: 'restricted',
    allow: ['a.test:1'],
    pins: {},
  })
  const all = step(one, [])
  expect(opensGrantedOnly(all)).toBe(false)
  // What did not take opens nothing either; what was not taken back is as it was.
  const undoing = { why: '', at: start, forTask: [] }
  const failed = { ...undoing, before: current(one), grants: all.grants.length }
  expect(opensGrantedOnly(undoGrant(all, [], failed))).toBe(true)
  const kept = { ...undoing, before: current(wide), grants: narrowed.grants.length }
  expect(opensGrantedOnly(undoGrant(narrowed, [], kept))).toBe(false)
})
