import {
  array,
  assert,
  asyncProperty,
  boolean,
  constant,
  constantFrom,
  oneof,
  record,
  type Arbitrary,
} from 'fast-check'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { SavedApproval } from '../../shared/config.ts'
import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import {
  approvalScopes,
  requestSources,
  type ApprovalScope,
  type RequestSource,
} from '../../shared/escalation.ts'
import { distrustProject } from './config/edit.ts'
import { defaultConfig } from './config/merge.ts'
import { networkNow } from './reach.ts'
import { contractOf, Theatre, type Failure } from './testing.ts'
import { Oracle } from './testingOracle.ts'

/** As it is drawn: `roots` and `ends` are put in place when it is written. */
type Drawn = { level: BoundaryLevel; hosts: string[]; agent?: string; elsewhere?: boolean; endsIn?: number }
type Command =
  | { do: 'request'; to: BoundaryLevel; hosts: string[]; source: RequestSource }
  | { do: 'approve'; scope: ApprovalScope }
  | { do: 'deny' }
  | { do: 'narrow'; to: BoundaryLevel }
  | { do: 'take'; host: string }
  | { do: 'user'; entries: Drawn[]; maximum: BoundaryLevel; auto: boolean }
  | { do: 'repository'; entries: Drawn[]; maximum?: BoundaryLevel }
  | { do: 'trust'; yes: boolean }
  | { do: 'reconsider' }
  | { do: 'revoke'; task: boolean }
  | { do: 'wait'; ms: number }
  | { do: 'restart' }
  | { do: 'fail'; mode: Failure }

const level = constantFrom(...boundaryLevels)
const hosts = constantFrom<string[]>([], ['a.test:1'], ['b.test:1'], ['a.test:1', 'b.test:1'])
const entries = array(
  record(
    {
      level,
      hosts: constantFrom<string[]>([], ['a.test'], ['*.test']),
      agent: constantFrom('*', '*', 'codex'),
      elsewhere: constantFrom(false, false, true),
      endsIn: constantFrom(-1_000, 60_000, 7_200_000),
    },
    { requiredKeys: ['level', 'hosts'] },
  ),
  { maxLength: 2 },
)
const command: Arbitrary<Command> = oneof(
  {
    weight: 5,
    arbitrary: record({ do: constant('request'), to: level, hosts, source: constantFrom(...requestSources) }),
  },
  { weight: 4, arbitrary: record({ do: constant('approve'), scope: constantFrom(...approvalScopes) }) },
  record({ do: constant('deny') }),
  record({ do: constant('narrow'), to: level }),
  record({ do: constant('take'), host: constantFrom('a.test', 'a.test:1', '*.test') }),
  { weight: 2, arbitrary: record({ do: constant('user'), entries, maximum: level, auto: boolean() }) },
  // Nothing saved: whatever is granted then comes of the policy, or should not be.
  {
    weight: 2,
    arbitrary: record({ do: constant('user'), entries: constant([]), maximum: level, auto: constant(true) }),
  },
  {
    weight: 2,
    arbitrary: record(
      { do: constant('repository'), entries, maximum: level },
      { requiredKeys: ['do', 'entries'] },
    ),
  },
  record({ do: constant('trust'), yes: boolean() }),
  { weight: 2, arbitrary: record({ do: constant('reconsider') }) },
  record({ do: constant('revoke'), task: boolean() }),
  record({ do: constant('wait'), ms: constantFrom(1_000, 120_000, 3_600_000, -3_600_000) }),
  record({ do: constant('restart') }),
  {
    weight: 2,
    arbitrary: record({ do: constant('fail'), mode: constantFrom('before', 'after', 'gone', 'overtaken') }),
  },
) as Arbitrary<Command>

/** Played every time, because a run by chance may miss them: the policy's word for an agent, past the maximum, and for what was taken. */
const examples: [BoundaryLevel, Command[]][] = [
  [
    'readwrite',
    [
      { do: 'user', entries: [], maximum: 'full', auto: true },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'agent' },
    ],
  ],
  [
    'readonly',
    [
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'readonly', auto: true },
      { do: 'request', to: 'readwrite', hosts: [], source: 'driver' },
      { do: 'reconsider' },
    ],
  ],
  [
    'readonly',
    [
      { do: 'request', to: 'full', hosts: [], source: 'agent' },
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'readwrite', auto: false },
      { do: 'reconsider' },
      { do: 'approve', scope: 'once' },
    ],
  ],
  [
    'network',
    [
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'full', auto: true },
      { do: 'take', host: '*.test' },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'broker' },
      { do: 'reconsider' },
      { do: 'request', to: 'full', hosts: [], source: 'agent' },
      { do: 'approve', scope: 'project' },
      { do: 'restart' },
      { do: 'take', host: 'a.test' },
    ],
  ],
  // Nobody else's yes counts, nor one that has ended, is for elsewhere, or was taken back.
  ...[{ agent: 'codex' }, { endsIn: 60_000 }, { elsewhere: true }].map(
    (limit): [BoundaryLevel, Command[]] => [
      'readonly',
      [
        {
          do: 'user',
          entries: [{ level: 'network', hosts: ['a.test'], ...limit }],
          maximum: 'full',
          auto: false,
        },
        { do: 'wait', ms: 120_000 },
        { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'broker' },
        { do: 'repository', entries: [{ level: 'readwrite', hosts: [], ...limit }] },
        { do: 'trust', yes: true },
        { do: 'wait', ms: 120_000 },
        { do: 'request', to: 'readwrite', hosts: [], source: 'agent' },
        { do: 'reconsider' },
      ],
    ],
  ),
  [
    'readonly',
    [
      { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'agent' },
      { do: 'approve', scope: 'task' },
      { do: 'revoke', task: true },
      { do: 'user', entries: [], maximum: 'readwrite', auto: false },
      { do: 'reconsider' },
      { do: 'user', entries: [], maximum: 'full', auto: false },
      { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'broker' },
    ],
  ],
  // A yes to a host is no yes to files, to the network or to another host; one without a host names none.
  ...(
    [
      ['readonly', ['a.test'], 'readwrite', ['a.test:1']],
      ['readonly', ['a.test'], 'full', ['a.test:1']],
      ['readwrite', ['a.test'], 'network', []],
      ['readonly', ['a.test'], 'readwrite', []],
      ['readwrite', ['a.test'], 'network', ['b.test:1']],
      ['readwrite', [], 'network', ['b.test:1']],
    ] as const
  ).map(([start, saved, to, wished]): [BoundaryLevel, Command[]] => [
    start,
    [
      { do: 'user', entries: [{ level: to, hosts: [...saved] }], maximum: 'full', auto: false },
      { do: 'request', to: to === 'full' ? 'network' : to, hosts: [...wished], source: 'agent' },
      { do: 'request', to, hosts: [...wished], source: 'agent' },
      { do: 'reconsider' },
    ],
  ]),
  // A host comes without a level that nobody spoke of, and what a repository says is nobody's word until it is trusted.
  [
    'readwrite',
    [
      { do: 'user', entries: [{ level: 'readonly', hosts: ['a.test'] }], maximum: 'full', auto: false },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'broker' },
      { do: 'repository', entries: [{ level: 'full', hosts: [] }] },
      { do: 'request', to: 'full', hosts: [], source: 'agent' },
      { do: 'reconsider' },
    ],
  ],
  // What a program prints nobody answers but a person.
  [
    'readwrite',
    [
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'full', auto: true },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'output' },
    ],
  ],
  // Who took it all back while a yes failed has the last word.
  [
    'readwrite',
    [
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'agent' },
      { do: 'fail', mode: 'overtaken' },
      { do: 'approve', scope: 'once' },
    ],
  ],
  // One host is not all that the contract names.
  [
    'readwrite',
    [
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'broker' },
      { do: 'approve', scope: 'once' },
    ],
  ],
  // Below the network no host is open, whoever said so, and at whichever level.
  ...(['user', 'project'] as const).map((whose): [BoundaryLevel, Command[]] => [
    'readonly',
    [
      { do: 'user', entries: [{ level: 'readonly', hosts: ['a.test'] }], maximum: 'full', auto: false },
      { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'broker' },
      whose === 'project'
        ? { do: 'repository', entries: [], maximum: 'readwrite' }
        : {
            do: 'user',
            entries: [{ level: 'readonly', hosts: ['*.test'] }],
            maximum: 'readwrite',
            auto: false,
          },
      { do: 'reconsider' },
      { do: 'request', to: 'readonly', hosts: ['b.test:1'], source: 'agent' },
      { do: 'request', to: 'readwrite', hosts: ['a.test:1'], source: 'agent' },
      { do: 'approve', scope: 'user' },
    ],
  ]),
]

const isSame = (a: Pick<Drawn, 'level' | 'hosts'>, b: Pick<Drawn, 'level' | 'hosts'>) =>
  a.level === b.level && a.hosts.join() === b.hosts.join()

test('whatever the sequence of requests, saves, reloads, failures and restarts, the boundary never exceeds what a person or a config has said', async () => {
  await using theatre = await Theatre.open()
  let widenings = 0
  await assert(
    asyncProperty(level, array(command, { minLength: 4, maxLength: 24 }), async (start, commands) => {
      const set = await theatre.stage(start)
      const oracle = new Oracle(start, 'claude', set.project, set.now)
      const contract = contractOf(set.project, {
        boundary: start,
        outputs: { mode: 'restricted', allow: ['own.test:1'] },
      })
      set.contracts.set(set.id, contract)
      let { boundaries } = set
      let failing: Failure | null = null
      for (const step of commands) {
        const error = await act(step).catch((caught: unknown) => caught)
        // Refusals are answers; anything else is a fault of ours, but for the failures that we play.
        const isPlayed = /EBUSY|the line broke|nobody is there/.test(String(error))
        if (error !== undefined && !(error instanceof OrangeryError) && !isPlayed) throw error
        oracle.checkGrants(boundaries.show(set.id), { level: start, hosts: [] }, step.do === 'approve')
        // A person took it all back in the middle.
        if (error !== undefined && failing === 'overtaken' && set.failsNext === null)
          oracle.narrow('readonly')
        failing = set.failsNext
        oracle.check(set.live)
        const { allow } = networkNow(contract, theatre.store.boundaries.read(set.id), defaultConfig())
        if (allow.includes('own.test:1')) expect(oracle.opened, 'the hosts of the contract').toBe(true)
        if (boundaryRank(set.live.level) > boundaryRank(start)) widenings++
      }

      function placed({ elsewhere, endsIn, ...entry }: Drawn, folder: string): SavedApproval {
        const expires =
          endsIn === undefined ? {} : { expires: new Date(set.now().getTime() + endsIn).toISOString() }
        return { agent: '*', ...entry, ...(elsewhere === true ? { roots: [folder] } : {}), ...expires }
      }

      async function act(step: Command): Promise<void> {
        switch (step.do) {
          case 'request':
            oracle.filesSpeak(step)
            await boundaries.request(set.id, { ...step, by: step.source, why: 'test' })
            break
          case 'approve': {
            const open = boundaries.show(set.id).requests.filter(({ status }) => status === 'open')
            // What nobody may grant holds up none of the others.
            const given = oracle.given(open.filter((request) => oracle.allows(request)))
            if (step.scope === 'user') oracle.user.push(...given)
            if (step.scope === 'task') oracle.task.push(...given)
            if (step.scope === 'project') oracle.savedToProject.push(...given)
            await boundaries.approve(set.id, { requests: null, by: 'person', message: '', scope: step.scope })
            break
          }
          case 'deny':
            await boundaries.deny(set.id, { requests: null, by: 'person', message: 'no' })
            break
          case 'narrow': {
            await boundaries.narrow(set.id, { to: step.to, by: 'person', why: 'test', way: 'narrowed' })
            oracle.narrow(step.to)
            break
          }
          case 'take':
            await boundaries.narrow(set.id, { hosts: [step.host], by: 'person', why: '', way: 'narrowed' })
            oracle.take(step.host)
            break
          case 'user':
            oracle.user = step.entries.map((entry) => placed(entry, join(theatre.home, 'elsewhere')))
            oracle.auto = step.auto
            oracle.maximum.user = step.maximum
            await set.user({
              sandboxApprovedEscalations: oracle.user,
              sandboxMaximumBoundary: step.maximum,
              sandboxEscalationPolicy: step.auto ? 'auto' : 'prompt',
              sandboxAutoEscalation: { hosts: ['a.test'], roots: [theatre.home] },
            })
            break
          case 'repository':
            oracle.repository = step.entries.map((entry) => placed(entry, 'elsewhere'))
            oracle.repositoryTrusted = false
            oracle.savedToProject = []
            oracle.maximum.project = step.maximum ?? 'full'
            await set.own({
              sandboxApprovedEscalations: oracle.repository,
              sandboxMaximumBoundary: oracle.maximum.project,
            })
            break
          case 'trust':
            if (step.yes) await set.trust()
            else await distrustProject(set.userConfigDir, set.project)
            oracle.repositoryTrusted = step.yes
            if (!step.yes) oracle.savedToProject = []
            break
          case 'reconsider':
            // A denial that waited since before the policy became auto is still a denial.
            for (const request of boundaries.show(set.id).requests) {
              if (request.status === 'open') oracle.filesSpeak(request)
            }
            await boundaries.reconsider(set.id)
            if (!oracle.allows({ to: set.live.level, hosts: [...set.live.hosts] }))
              throw new Error(`${JSON.stringify(set.live)} stayed above the maximum ${oracle.ceiling}`)
            break
          case 'revoke': {
            const { saved, tasks } = await boundaries.approvals([set.project])
            const [first] = saved
            const task = tasks.find((known) => known.task === set.id && known.revoked_at === null)
            if (step.task && task !== undefined) {
              await boundaries.revoke(task.id, [set.project])
              oracle.task = oracle.task.filter((entry) => !isSame(entry, task))
            } else if (!step.task && first !== undefined) {
              await boundaries.revoke(first.id, [set.project])
              oracle.revoke(first)
            }
            break
          }
          case 'wait':
            set.advance(step.ms)
            break
          case 'restart':
            boundaries = set.make()
            break
          case 'fail':
            set.failNext(step.mode)
            break
          default:
            throw new Error(`unknown ${JSON.stringify(step satisfies never)}`)
        }
      }
    }),
    { numRuns: 50, examples },
  )
  // A machine that never widens anything would pass too.
  expect(widenings).toBeGreaterThan(0)
})
