import type { Handlers } from '../../src/shared/api.ts'
import type { BoundaryLevel } from '../../src/shared/boundary.ts'
import type { EffectiveApproval, EffectiveConfig } from '../../src/shared/config.ts'
import type { BoundaryGrant, BoundaryRequest } from '../../src/shared/escalation.ts'
import type { DispatchRow } from '../../src/shared/dispatch.ts'
import { OrangeryError } from '../../src/shared/errors.ts'

type BoundaryHandlers = Pick<Handlers, Extract<keyof Handlers, `boundary.${string}` | `config.${string}`>>

const level = {
  hosts: null,
  deniedHosts: [],
  writable: [],
  hide: [],
  tools: { allow: null, deny: [] },
  commands: { allow: null, deny: [] },
}
const config: EffectiveConfig = {
  sandboxEnabled: true,
  sandboxBoundaries: { plan: 'readonly', build: 'readwrite', learn: 'readonly' },
  sandboxPhaseFiles: { plan: ['TODO.md'], build: [], learn: ['AGENTS.md'] },
  sandboxLevels: { readonly: level, readwrite: level, network: level, full: level },
  sandboxMaximumBoundary: 'full',
  sandboxEscalationPolicy: 'prompt',
  sandboxEscalationWait: 0,
  sandboxAutoEscalation: { hosts: [], roots: [] },
  sandboxCredentials: [],
  sandboxProxyResolves: false,
  sandboxApprovedEscalations: [],
  sandboxSelection: [],
  agentForbiddenTools: ['AskUserQuestion'],
  agentInactivityTimeout: 0,
  changesetProtectedPaths: [],
  provenance: {
    sandboxEnabled: [{ source: 'default', file: null, line: null }],
    'sandboxBoundaries.plan': [{ source: 'default', file: null, line: null }],
    sandboxMaximumBoundary: [{ source: 'user', file: '/home/ada/.config/orangery/config.json', line: 2 }],
    agentForbiddenTools: [{ source: 'project', file: '/home/ada/shop/.orangery.json', line: 9 }],
  },
  heldBack: [
    {
      file: '/home/ada/shop/.orangery.json',
      line: 4,
      key: 'sandboxEscalationPolicy',
      message: 'would widen, and the file is not trusted',
    },
  ],
  warnings: [],
  projects: [],
}

/** Canned boundaries: every running dispatch has one request that waits for a person. */
export function boundaryDemo(
  find: (id: string) => DispatchRow,
  running: () => readonly DispatchRow[],
  changed: (id: string) => void,
): BoundaryHandlers {
  const answered = new Map<string, BoundaryRequest>()
  const history = new Map<string, BoundaryGrant[]>()
  const now = () => new Date().toISOString()
  const saved: EffectiveApproval[] = [
    {
      id: 'a1',
      agent: 'claude',
      level: 'network',
      hosts: ['registry.example.com:443'],
      source: 'project',
      file: '/home/ada/shop/.orangery.json',
      line: 4,
      covers: ['/home/ada/shop'],
      expired: false,
    },
  ]

  function request(of: DispatchRow): BoundaryRequest {
    const known = answered.get(of.id)
    if (known !== undefined) return known
    return {
      id: `r-${of.id.slice(-4)}`,
      dispatch: of.id,
      to: 'network',
      hosts: ['registry.example.com:443'],
      source: 'broker',
      by: 'broker',
      why: 'registry.example.com:443 was denied',
      status: 'open',
      count: 3,
      created_at: of.created_at,
      last_at: of.created_at,
      expires_at: new Date(Date.now() + 600_000).toISOString(),
      answer: null,
    }
  }
  function grant(
    of: DispatchRow,
    to: BoundaryLevel,
    hosts: string[],
    way: BoundaryGrant['way'],
    why: string,
    taken: string[] = [],
  ) {
    const grants = history.get(of.id) ?? []
    grants.push({
      at: now(),
      from: of.boundary,
      to,
      by: 'you',
      why,
      hosts,
      taken,
      returned: [],
      way,
      request: null,
    })
    history.set(of.id, grants)
    of.boundary = to
    changed(of.id)
  }
  function state(of: DispatchRow) {
    const grants = history.get(of.id) ?? []
    const isRunning = of.status === 'running'
    return {
      id: of.id,
      level: of.boundary,
      hosts: grants.at(-1)?.hosts ?? [],
      taken: grants.at(-1)?.taken ?? [],
      running: isRunning,
      enforced: of.level !== 0,
      history: grants,
      requests: isRunning || answered.has(of.id) ? [request(of)] : [],
    }
  }
  function openRequest(id: string): { of: DispatchRow; open: BoundaryRequest } {
    const of = find(id)
    const open = request(of)
    if (open.status === 'open' && of.status === 'running') return { of, open }
    throw new OrangeryError('boundary.nothing_open', `dispatch ${of.id}: no open request`, {
      kind: 'not_found',
    })
  }

  return {
    'boundary.show': async ({ id }) => state(find(id)),
    'boundary.request': async ({ id }) => request(find(id)),
    'boundary.approve': async ({ id, scope, message }) => {
      const { of, open } = openRequest(id)
      const done: BoundaryRequest = {
        ...open,
        status: 'approved',
        answer: { at: now(), by: 'you', way: scope, message },
      }
      answered.set(of.id, done)
      grant(of, open.to, open.hosts, scope, open.why)
      return [done]
    },
    'boundary.deny': async ({ id, message }) => {
      const { of, open } = openRequest(id)
      const done: BoundaryRequest = {
        ...open,
        status: 'denied',
        answer: { at: now(), by: 'you', way: 'once', message },
      }
      answered.set(of.id, done)
      changed(of.id)
      return [done]
    },
    'boundary.narrow': async ({ id, to, hosts, reason }) => {
      const of = find(id)
      const left = (history.get(of.id)?.at(-1)?.hosts ?? []).filter((host) => !hosts.includes(host))
      const level = to ?? of.boundary ?? 'readonly'
      grant(of, level, hosts.length === 0 ? [] : left, 'narrowed', reason, hosts)
      return state(find(id))
    },
    'boundary.inbox': async () =>
      running()
        .map(request)
        .filter(({ status }) => status === 'open'),
    'boundary.approvals': async () => ({ saved: saved.map((each) => ({ ...each, here: true })), tasks: [] }),
    'boundary.revoke': async ({ approval }) => {
      const at = saved.findIndex((each) => each.id === approval)
      return { removed: saved.splice(at, at === -1 ? 0 : 1).map((each) => each.id) }
    },
    'config.show': async () => config,
    'config.question': async ({ root }) => ({
      project: root,
      file: `${root}/.orangery.json`,
      trust: 'absent',
      before: '',
      now: '',
      sha256: null,
    }),
    'config.trust': async ({ root }) => ({
      project: root,
      file: `${root}/.orangery.json`,
      trust: 'absent',
      before: '',
      now: '',
      sha256: null,
    }),
  }
}
