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
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { EffectiveApproval, LevelOverride, SavedApproval } from '../../shared/config.ts'
import { boundaryLevels, boundaryRank, phases, type BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { approvalScopes, requestSources, type TaskApproval } from '../../shared/escalation.ts'
import { capabilitiesOf } from './capabilities.ts'
import { distrustProject } from './config/trusting.ts'
import { loadConfig } from './config/load.ts'
import { networkNow } from './reach.ts'
import { current } from './step.ts'
import { contractOf, Theatre, type Failure } from './testing.ts'
import { Oracle } from './testingOracle.ts'
import { examples, type Command, type Drawn, type Forbidding } from './testingPlays.ts'

const level = constantFrom(...boundaryLevels)
const phase = constantFrom('build', 'build', ...phases)
const hosts = constantFrom<string[]>([], ['a.test:1'], ['b.test:1'], ['a.test'], ['a.test:1', 'b.test:1'])
const entries = array(
  record(
    {
      level,
      hosts: constantFrom<string[]>([], ['a.test'], ['a.test:1'], ['*.test']),
      agent: constantFrom('*', '*', 'codex'),
      elsewhere: constantFrom(false, false, true),
      endsIn: constantFrom(-1_000, 60_000, 7_200_000),
      phase: constantFrom(...phases),
    },
    { requiredKeys: ['level', 'hosts'] },
  ),
  { maxLength: 2 },
)
const forbids = record({
  level,
  hosts: constantFrom<string[]>([], ['a.test'], ['a.test:1'], ['*.test']),
  tools: constantFrom<string[]>([], ['Bash']),
  hide: constantFrom<string[]>([], ['.env'], ['.env', 'secrets/']),
})
const command: Arbitrary<Command> = oneof(
  {
    weight: 5,
    arbitrary: record({ do: constant('request'), to: level, hosts, source: constantFrom(...requestSources) }),
  },
  {
    weight: 4,
    arbitrary: record({
      do: constant('approve'),
      scope: constantFrom(...approvalScopes),
      inner: boolean(),
      unsaved: constantFrom(false, false, false, true),
    }),
  },
  record({ do: constant('deny') }),
  record({ do: constant('narrow'), to: level }),
  record({ do: constant('take'), host: constantFrom('a.test', 'a.test:1', '*.test') }),
  {
    weight: 2,
    arbitrary: record(
      {
        do: constant('user'),
        entries,
        maximum: level,
        auto: boolean(),
        autoElsewhere: boolean(),
        forbids,
      },
      { requiredKeys: ['do', 'entries', 'maximum', 'auto', 'autoElsewhere'] },
    ),
  },
  // Nothing saved: whatever is granted then comes of the policy, or should not be.
  {
    weight: 2,
    arbitrary: record({ do: constant('user'), entries: constant([]), maximum: level, auto: constant(true) }),
  },
  {
    weight: 2,
    arbitrary: record(
      {
        do: constant('repository'),
        entries,
        maximum: level,
        auto: boolean(),
        autoHosts: constant(['*.test']),
        levelHosts: constantFrom(['repository.test'], ['repository.test', 'a.test']),
        forbids,
      },
      { requiredKeys: ['do', 'entries'] },
    ),
  },
  { weight: 3, arbitrary: record({ do: constant('trust'), yes: constantFrom(true, true, false) }) },
  { weight: 2, arbitrary: record({ do: constant('reconsider') }) },
  record({ do: constant('revoke'), task: boolean() }),
  record({ do: constant('wait'), ms: constantFrom(1_000, 120_000, 3_600_000, -3_600_000) }),
  record({ do: constant('restart') }),
  {
    weight: 2,
    arbitrary: record({ do: constant('fail'), mode: constantFrom('before', 'after', 'gone', 'overtaken') }),
  },
) as Arbitrary<Command>

const levelOf = (forbids: Forbidding | undefined): Partial<Record<BoundaryLevel, LevelOverride>> =>
  forbids === undefined
    ? {}
    : {
        [forbids.level]: {
          deniedHosts: forbids.hosts,
          hide: forbids.hide,
          tools: { deny: forbids.tools },
        },
      }

const isSame = (a: Pick<Drawn, 'level' | 'hosts'>, b: Pick<Drawn, 'level' | 'hosts'>) =>
  a.level === b.level && a.hosts.join() === b.hosts.join()

const standing = (all: { saved: readonly EffectiveApproval[]; tasks: readonly TaskApproval[] }) =>
  [...all.saved, ...all.tasks.filter(({ revoked_at: revoked }) => revoked === null)]
    .map(({ id }) => id)
    .sort()

test('whatever the sequence of requests, saves, reloads, failures and restarts, the boundary never exceeds what a person or a config has said', async () => {
  await using theatre = await Theatre.open()
  let widenings = 0
  await assert(
    asyncProperty(
      level,
      array(command, { minLength: 4, maxLength: 24 }),
      phase,
      boolean(),
      async (start, commands, phase, isDrawnOpen) => {
        const set = await theatre.stage(start, 'claude', phase)
        const oracle = new Oracle(start, 'claude', set.project, set.now, phase)
        const inner = join(set.project, 'inner')
        await mkdir(inner)
        // An open network goes with files that are read-only: then every boundary has it.
        const isOpen = isDrawnOpen && start === 'readonly'
        const contract = contractOf(
          set.project,
          isOpen
            ? { access_mode: 'read-only', outputs: { mode: 'open' } }
            : { boundary: start, outputs: { mode: 'restricted', allow: ['own.test:1'] } },
        )
        set.contracts.set(set.id, contract)
        let { boundaries } = set
        let failing: Failure | null = null
        for (const step of commands) {
          const { level: levelBefore, hosts: hostsBefore } = boundaries.show(set.id)
          const error = await act(step).catch((caught: unknown) => caught)
          // Refusals are answers; anything else is a fault of ours, but for the failures that we play.
          const isPlayed = /EBUSY|the line broke|nobody is there/.test(String(error))
          if (error !== undefined && !(error instanceof OrangeryError) && !isPlayed) throw error
          if (error !== undefined && failing !== 'overtaken' && step.do === 'approve')
            expect(boundaries.show(set.id), 'a change that failed').toMatchObject({
              level: levelBefore,
              hosts: hostsBefore,
            })
          oracle.checkGrants(boundaries.show(set.id), { level: start, hosts: [] }, step.do === 'approve')
          // A person took it all back in the middle.
          if (error !== undefined && failing === 'overtaken' && set.failsNext === null)
            oracle.narrow('readonly')
          failing = set.failsNext
          oracle.check(set.live)
          const config = await loadConfig(
            { userConfigDir: set.userConfigDir, roots: [set.project] },
            set.now(),
          )
          const state = theatre.store.boundaries.read(set.id)
          const { allow, mode, deny } = networkNow(contract, state, config)
          oracle.checkForbidden(capabilitiesOf(current(state).level, config), deny)
          const isNarrowed = state.grants.some(({ way }) => ['narrowed', 'closed', 'config'].includes(way))
          // Whatever the records say by now, and whatever failed.
          if (boundaryRank(config.sandboxMaximumBoundary) < boundaryRank('network'))
            expect([mode, ...allow], 'below the maximum').toEqual(['none'])
          else if (isOpen && !isNarrowed) expect(mode, 'an open network that a yes has closed').toBe('open')
          if (allow.includes('repository.test'))
            expect(oracle.repositoryTrusted, 'the hosts of a repository').toBe(true)
          if (allow.includes('own.test:1')) expect(oracle.opened, 'the hosts of the contract').toBe(true)
          if (mode === 'open') expect(isOpen || oracle.openedAll, 'every host').toBe(true)
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
              const granted = open.filter(
                (request) => oracle.allows(request) && !request.hosts.some((host) => oracle.denies(host)),
              )
              const unsay = oracle.attempt()
              const given = oracle.given(granted, boundaries.show(set.id).level ?? start)
              if (step.scope === 'task') oracle.task.push(...given)
              const isInner = step.inner === true && (step.scope === 'project' || step.scope === 'user')
              const kept = phase === 'build' ? given : given.map((yes) => ({ ...yes, phase }))
              if (step.scope === 'user')
                oracle.user.push(...kept.map((yes) => (isInner ? { ...yes, roots: [inner] } : yes)))
              if (step.scope === 'project') oracle.saveToProject(kept, isInner ? ['inner'] : undefined)
              const covers = isInner ? { covers: [inner] } : {}
              const answer = { requests: null, by: 'person', message: '', scope: step.scope, ...covers }
              const { scope, unsaved = false } = step
              const isSpoilt = unsaved && (scope === 'project' || scope === 'user')
              const before = await boundaries.approvals([set.project])
              try {
                using _spoilt = isSpoilt ? set.unsaved(scope) : null
                await boundaries.approve(set.id, answer)
                if (isSpoilt) throw new Error('a yes that was saved nowhere')
              } catch (error) {
                unsay()
                const after = await boundaries.approvals([set.project])
                expect(standing(after), 'approvals that nobody gave').toEqual(standing(before))
                throw error
              }
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
              oracle.policy.user = step.auto
              oracle.policy.autoHere = step.autoElsewhere !== true
              oracle.maximum.user = step.maximum
              oracle.forbids.user = step.forbids ?? null
              await set.user({
                sandboxLevels: levelOf(step.forbids),
                sandboxApprovedEscalations: oracle.user,
                sandboxMaximumBoundary: step.maximum,
                sandboxEscalationPolicy: step.auto ? 'auto' : 'prompt',
                sandboxAutoEscalation: {
                  hosts: ['a.test'],
                  roots: [step.autoElsewhere === true ? join(theatre.home, 'elsewhere') : theatre.home],
                },
              })
              break
            case 'repository': {
              const { auto, autoHosts, levelHosts, forbids: forbidding } = step
              const forbidden = levelOf(forbidding)
              const levels =
                levelHosts === undefined
                  ? forbidden
                  : { ...forbidden, network: { ...forbidden.network, hosts: levelHosts } }
              const approved = step.entries.map((entry) => placed(entry, 'elsewhere'))
              const rest = {
                sandboxMaximumBoundary: step.maximum ?? 'full',
                ...(auto === undefined
                  ? {}
                  : { sandboxEscalationPolicy: auto ? ('auto' as const) : ('prompt' as const) }),
                ...(autoHosts === undefined
                  ? {}
                  : { sandboxAutoEscalation: { hosts: autoHosts, roots: [theatre.home] } }),
                ...(levelHosts === undefined && forbidding === undefined ? {} : { sandboxLevels: levels }),
              } as const
              oracle.forbids.project = forbidding ?? null
              oracle.writes(approved, rest)
              await set.own({ sandboxApprovedEscalations: approved, ...rest })
              // Somebody looks at it before the next one writes.
              await boundaries.approvals([set.project])
              break
            }
            case 'trust':
              if (step.yes) await set.trust()
              else await distrustProject(set.userConfigDir, set.project)
              oracle.trusts(step.yes)
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
      },
    ),
    { numRuns: examples.length + 60, examples },
  )
  // A machine that never widens anything would pass too.
  expect(widenings).toBeGreaterThan(0)
})
