import { describe, expect, test } from 'vitest'
import type { EffectiveConfig } from '../../shared/config.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { EscalationState } from '../base/escalation.ts'
import { approveRequests, denyRequests, narrowBoundary } from './answers.ts'
import { escalationLimits, fileRequest, type Asking } from './escalation.ts'
import { current, settle } from './step.ts'
import { approval, asking, context, fresh, later, refusal, start } from './fixture.ts'

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

  test('answers the agent that asked for the same and still waits, when a denial brings the yes', () => {
    const asked = fileRequest(fresh(), asking({ source: 'agent' }), context(auto))
    expect(asked.result.status).toBe('open')
    const denied = fileRequest(asked.state, asking(), context(auto))
    expect(denied.result).toMatchObject({
      id: asked.result.id,
      source: 'agent',
      status: 'approved',
      count: 2,
      answer: { way: 'auto' },
    })
    expect(denied.state.requests).toEqual([denied.result])
    // It is on record that it was asked for already.
    expect(denied.effects.filter(({ kind }) => kind === 'tell')).not.toContainEqual(
      expect.objectContaining({ event: expect.objectContaining({ type: 'BoundaryRequested' }) }),
    )
    expect(denied.effects.length).toBeGreaterThan(0)
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
      answer: { way: 'saved' },
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

  test('a yes that gives more answers what else was open and came with it, and no more', () => {
    const ask = (state: EscalationState, more: Partial<Asking>) =>
      fileRequest(state, asking({ source: 'agent', ...more }), context()).state
    const files = ask(fresh({ phase: 'plan', start: 'readonly' }), { to: 'readwrite', hosts: [] })
    const both = ask(files, { hosts: ['registry.test'] })
    const port = ask(both, { hosts: ['registry.test:443'] })
    const other = ask(port, { hosts: ['b.test'] })
    const all = ask(other, { to: 'full', hosts: [] })
    const [, wider] = all.requests
    const one = { ...answering, requests: [wider?.id ?? ''], scope: 'once' as const }
    const { state, result } = approveRequests(all, one, context())
    expect(state.requests.map(({ status }) => status)).toEqual([
      'approved',
      'approved',
      'approved',
      'open',
      'open',
    ])
    expect(state.requests[0]?.answer).toMatchObject({ way: 'config', message: 'It has this already.' })
    expect(result).toHaveLength(1)
    // The files came with it, and no change of their own is on record.
    expect(state.grants).toMatchObject([{ from: 'readonly', to: 'network', request: wider?.id }])
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
