import type { EffectiveApproval, EffectiveConfig } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { EscalationState } from '../base/escalation.ts'
import type { EscalationContext } from './context.ts'
import { defaultConfig } from './config/merge.ts'
import type { Asking } from './escalation.ts'

export const start = new Date('2026-01-01T12:00:00Z')
export const later = (ms: number) => new Date(start.getTime() + ms)

export const fresh = (more: Partial<EscalationState> = {}): EscalationState => ({
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
export const context = (more: Partial<EffectiveConfig> = {}, at = start): EscalationContext => ({
  at,
  config: { ...defaultConfig(), ...more },
  roots: ['/projects/a'],
  bounds: new Map(),
})
let counter = 0
export const asking = (more: Partial<Asking> = {}): Asking => ({
  id: `r${++counter}`,
  to: 'network',
  hosts: ['registry.test:443'],
  source: 'broker',
  by: 'broker',
  why: 'registry.test:443 was denied',
  ...more,
})
export const approval = (more: Partial<EffectiveApproval> = {}): EffectiveApproval => ({
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

export function refusal(act: () => unknown): OrangeryError {
  try {
    act()
  } catch (error) {
    if (error instanceof OrangeryError) return error
    throw error
  }
  throw new Error('it was accepted')
}
