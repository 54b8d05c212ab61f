import { describe, expect, test } from 'vitest'
import type { EffectiveApproval, EffectiveConfig } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { Contract } from '../base/contract.ts'
import type { EscalationState } from '../base/escalation.ts'
import { savedApprovalsFor, type EscalationContext } from './approvals.ts'
import { defaultConfig } from './config/merge.ts'
import { approveRequests, denyRequests, narrowBoundary, undoGrant } from './answers.ts'
import { networkAt } from './capabilities.ts'
import { approveStanding, escalationLimits, fileRequest, type Asking } from './escalation.ts'
import { current, opensGrantedOnly, settle } from './step.ts'

const start = new Date('2026-01-01T12:00:00Z')
const later = (ms: number) => new Date(start.getTime() + ms)

const fresh = (more: Partial<EscalationState> = {}): EscalationState => ({
  dispatch: '20260101120000-aaaa' as DispatchId,
  task: '20260101120000-aaaa',
  agent: 'claude',
  phase: 'build',
  roots: ['/projects/a'],
  running: true,
  start: 'readwrite',
  grants: [],
  requests: [],
  taskApprovals: [],
  ancestors: [],
  ...more,
})
const context = (more: Partial<EffectiveConfig> = {}, at = start): EscalationContext => ({
  at,
  config: { ...defaultConfig(), ...more },
  roots: ['/projects/a'],
  bounds: new Map(),
})
let counter = 0
const asking = (more: Partial<Asking> = {}): Asking => ({
  id: `r${++counter}`,
  to: 'network',
  hosts: ['registry.test:443'],
  source: 'broker',
  by: 'broker',
  why: 'registry.test:443 was denied',
  ...more,
})
const approval = (more: Partial<EffectiveApproval> = {}): EffectiveApproval => ({
  agent: 'claude',
  level: 'network',
  hosts: ['registry.test'],
  id: 'abc',
  source: 'user',
  file: '/config.json',
  line: 1,
  covers: null,
  expired: false,
  ...more,
})

function refusal(act: () => unknown): OrangeryError {
  try {
    act()
  } catch (error) {
    if (error instanceof OrangeryError) return error
    throw error
  }
  throw new Error('it was accepted')
}

describe('a request', () => {
  test('under the policy prompt waits for a person, and says so in the log', () => {
    const { state, effects, result } = fileRequest(fresh(), asking(), context())
    expect(result).toMatchObject({ status: 'open', count: 1, answer: null })
    expect(effects).toEqual([{ kind: 'tell', event: expect.objectContaining({ type: 'BoundaryRequested' }) }])
    expect(current(state)).toMatchObject({ level: 'readwrite', hosts: [] })
  })

  test('that is the same as one that is open is counted, not asked again', () => {
    const first = fileRequest(fresh(), asking({ hosts: ['b.test', 'a.test'] }), context())
    const second = fileRequest(
      first.state,
      asking({ hosts: ['A.test', 'b.test.', 'a.test'] }),
      context({}, later(1000)),
    )
    expect(second.state.requests).toHaveLength(1)
    expect(second.result).toMatchObject({ id: first.result.id, count: 2, last_at: later(1000).toISOString() })
    expect(second.effects).toEqual([])
  })

  test('for what it already has is answered at once', () => {
    const { result, state } = fileRequest(
      fresh({ start: 'full' }),
      asking({ to: 'network', hosts: [] }),
      context(),
    )
    expect(result).toMatchObject({ status: 'approved', answer: { way: 'config' } })
    expect(state.requests).toEqual([])
  })

  test('expires', () => {
    const { state } = fileRequest(fresh(), asking(), context())
    const atTheEnd = later(escalationLimits.requestLastsMs)
    expect(settle(state, later(escalationLimits.requestLastsMs - 1)).requests[0]?.status).toBe('open')
    expect(settle(state, atTheEnd).requests[0]?.status).toBe('expired')
    const answering = { requests: null, by: 'person', message: '', scope: 'once' as const }
    expect(refusal(() => approveRequests(state, answering, context({}, atTheEnd))).kind).toBe('not_found')
  })

  test('is closed when its dispatch has ended, and a dispatch that has ended cannot file one', () => {
    const { state } = fileRequest(fresh(), asking(), context())
    expect(settle({ ...state, running: false }, start).requests[0]?.status).toBe('closed')
    expect(refusal(() => fileRequest(fresh({ running: false }), asking(), context())).kind).toBe('busy')
  })

  test('in a flood is refused; the person’s own still go through', () => {
    let state = fresh()
    for (let index = 0; index < escalationLimits.floodRequests; index++) {
      state = fileRequest(state, asking({ hosts: [`h${index}.test`] }), context()).state
    }
    const one = asking({ hosts: ['one.more.test'] })
    expect(refusal(() => fileRequest(state, one, context())).code).toBe('boundary.flood')
    expect(fileRequest(state, { ...one, source: 'user' }, context()).result.status).toBe('open')
    const minute = later(escalationLimits.floodWindowMs)
    expect(fileRequest(state, one, context({}, minute)).result.status).toBe('open')
  })

  test('that an earlier yes answers is in no flood, and leaves room for those that a person answers', () => {
    let state = fresh()
    const saved = context({ sandboxApprovedEscalations: [approval({ hosts: ['*.test'] })] })
    for (let index = 0; index <= 2 * escalationLimits.floodRequests; index++) {
      const filed = fileRequest(state, asking({ hosts: [`h${index}.test:443`] }), saved)
      expect(filed.result.status).toBe('approved')
      state = filed.state
    }
    expect(fileRequest(state, asking({ hosts: ['h.example'] }), saved).result.status).toBe('open')
  })

  test('beyond the policy’s maximum is denied without asking anyone', () => {
    const { state, result } = fileRequest(fresh(), asking(), context({ sandboxMaximumBoundary: 'readwrite' }))
    expect(result).toMatchObject({ status: 'denied', answer: { way: 'policy' } })
    expect(current(state).level).toBe('readwrite')
  })

  test('with something that is no host is bad input', () => {
    expect(refusal(() => fileRequest(fresh(), asking({ hosts: ['http://x/'] }), context())).kind).toBe(
      'input',
    )
  })
})

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

  test('that appears while the request is open answers it', () => {
    const { state, result } = fileRequest(fresh(), asking(), context())
    expect(approveStanding(state, context()).result).toEqual([])
    const step = approveStanding(state, context({ sandboxApprovedEscalations: [approval()] }))
    expect(step.result).toMatchObject([{ id: result.id, status: 'approved' }])
    expect(current(step.state)).toMatchObject({ level: 'network', hosts: ['registry.test:443'] })
  })
})

describe('the policy auto', () => {
  const auto: Partial<EffectiveConfig> = {
    sandboxEscalationPolicy: 'auto',
    sandboxAutoEscalation: { hosts: ['*.test'], roots: ['/projects'] },
  }
  const status = (ask: Partial<Asking>, more: Partial<EffectiveConfig> = {}, state = fresh()) =>
    fileRequest(state, asking(ask), context({ ...auto, ...more })).result.status

  test('widens on a denial the broker or the driver reported', () => {
    expect(status({})).toBe('approved')
    expect(status({ source: 'driver', to: 'readwrite', hosts: [] }, {}, fresh({ start: 'readonly' }))).toBe(
      'approved',
    )
  })

  test('never widens because an agent or a user asked', () => {
    expect(status({ source: 'agent' })).toBe('open')
    expect(status({ source: 'user' })).toBe('open')
  })

  test('never widens beyond the hosts and roots the user named, to full, or in a read-only phase', () => {
    expect(status({ hosts: ['a.test', 'evil.net'] })).toBe('open')
    expect(status({ hosts: [] })).toBe('open')
    expect(status({ to: 'full' })).toBe('open')
    expect(status({}, { sandboxAutoEscalation: { hosts: ['*.test'], roots: ['/other'] } })).toBe('open')
    expect(status({ to: 'readonly' }, {}, fresh({ start: 'readonly', phase: 'plan' }))).toBe('open')
  })
})

describe('a person', () => {
  const open = () => fileRequest(fresh(), asking(), context())
  const answering = { requests: null, by: 'person', message: 'go on' }

  test('approving once widens this dispatch and saves nothing', () => {
    const { state, effects, result } = approveRequests(
      open().state,
      { ...answering, scope: 'once' },
      context(),
    )
    expect(result).toMatchObject([
      { status: 'approved', answer: { way: 'once', by: 'person', message: 'go on' } },
    ])
    expect(effects).toEqual([
      {
        kind: 'apply',
        to: 'network',
        hosts: ['registry.test:443'],
        by: 'person',
        why: 'registry.test:443 was denied',
      },
    ])
    expect(state.taskApprovals).toEqual([])
    expect(state.grants).toMatchObject([{ from: 'readwrite', to: 'network', by: 'person', way: 'once' }])
  })

  test('approving for the task answers the same wish of a child at once', () => {
    const { state } = approveRequests(open().state, { ...answering, scope: 'task' }, context())
    const child = fresh({
      dispatch: '20260101120500-bbbb' as DispatchId,
      taskApprovals: state.taskApprovals,
    })
    expect(fileRequest(child, asking(), context()).result).toMatchObject({
      status: 'approved',
      answer: { way: 'task' },
    })
    expect(fileRequest({ ...child, task: 'other' }, asking(), context()).result.status).toBe('open')
    const revoked = [{ ...state.taskApprovals[0]!, revoked_at: start.toISOString() }]
    expect(fileRequest({ ...child, taskApprovals: revoked }, asking(), context()).result.status).toBe('open')
  })

  test.each(['project', 'user'] as const)(
    'approving and saving to the %s saves before it takes effect',
    (scope) => {
      const { effects } = approveRequests(open().state, { ...answering, scope }, context())
      expect(effects.map(({ kind }) => kind)).toEqual(['save', 'apply'])
      expect(effects[0]).toMatchObject({
        scope,
        approvals: [{ agent: 'claude', level: 'network', hosts: ['registry.test:443'] }],
      })
    },
  )

  test('answers all open requests of a dispatch, or one', () => {
    const first = open()
    const second = fileRequest(first.state, asking({ hosts: ['b.test'] }), context())
    const one = { ...answering, requests: [first.result.id], scope: 'once' as const }
    const after = approveRequests(second.state, one, context())
    expect(current(after.state).hosts).toEqual(['registry.test:443'])
    expect(after.state.requests.map(({ status }) => status)).toEqual(['approved', 'open'])
    expect(refusal(() => approveRequests(after.state, one, context())).code).toBe('boundary.answered')
    const all = approveRequests(second.state, { ...answering, scope: 'once' }, context())
    expect(current(all.state).hosts).toEqual(['registry.test:443', 'b.test'])
  })

  test('denying tells the agent why, and the same question is not put to the person again for a while', () => {
    const denied = denyRequests(open().state, { ...answering, message: 'use the mirror' }, { at: start })
    expect(denied.effects).toEqual([
      { kind: 'tell', event: expect.objectContaining({ type: 'BoundaryDenied', why: 'use the mirror' }) },
    ])
    const again = fileRequest(denied.state, asking({ source: 'agent' }), context({}, later(1000)))
    expect(again.result).toMatchObject({ status: 'denied', count: 2, answer: { message: 'use the mirror' } })
    expect(again.effects).toEqual([])
    expect(fileRequest(denied.state, asking({ source: 'user' }), context()).result.status).toBe('open')
    const muchLater = context({}, later(escalationLimits.denialHoldsMs + 1))
    expect(fileRequest(denied.state, asking(), muchLater).result.status).toBe('open')
  })

  test('cannot approve beyond the policy’s maximum', () => {
    const { state } = open()
    const narrowed = context({ sandboxMaximumBoundary: 'readwrite' })
    expect(refusal(() => approveRequests(state, { ...answering, scope: 'once' }, narrowed)).kind).toBe(
      'refused',
    )
  })

  test('who narrowed an agent is asked before a saved approval widens it again', () => {
    const saved = context({ sandboxApprovedEscalations: [approval()] })
    const wide = fileRequest(fresh(), asking(), saved)
    const narrowing = { to: 'readonly' as const, by: 'person', why: 'stop that', way: 'narrowed' as const }
    const narrowed = narrowBoundary(wide.state, narrowing, { at: start })
    expect(current(narrowed.state)).toMatchObject({ level: 'readonly', hosts: [] })
    const again = fileRequest(narrowed.state, asking(), saved)
    expect(again.result.status).toBe('open')
    const yes = approveRequests(again.state, { ...answering, scope: 'once' }, saved)
    expect(current(yes.state).level).toBe('network')
    const another = { ...asking({ hosts: ['registry.test:80'] }) }
    expect(fileRequest(yes.state, another, saved).result.status).toBe('open')
    expect(
      refusal(() => narrowBoundary(narrowed.state, { ...narrowing, to: 'full' }, { at: start })).kind,
    ).toBe('input')
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
  const undoing = { why: '', at: start }
  const failed = { ...undoing, before: current(one), grants: all.grants.length }
  expect(opensGrantedOnly(undoGrant(all, [], failed))).toBe(true)
  const kept = { ...undoing, before: current(wide), grants: narrowed.grants.length }
  expect(opensGrantedOnly(undoGrant(narrowed, [], kept))).toBe(false)
})
