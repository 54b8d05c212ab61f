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
import { expect, test } from 'vitest'
import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import {
  approvalScopes,
  requestSources,
  type ApprovalScope,
  type BoundaryRequest,
  type RequestSource,
} from '../../shared/escalation.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import { distrustProject } from './config/edit.ts'
import type { Held } from './step.ts'
import { isTaken } from './taken.ts'
import { Theatre, type Failure } from './testing.ts'

type Entry = { level: BoundaryLevel; hosts: string[] }
type Command =
  | { do: 'request'; to: BoundaryLevel; hosts: string[]; source: RequestSource }
  | { do: 'approve'; scope: ApprovalScope }
  | { do: 'deny' }
  | { do: 'narrow'; to: BoundaryLevel }
  | { do: 'take'; host: string }
  | { do: 'user'; entries: Entry[]; maximum: BoundaryLevel; auto: boolean }
  | { do: 'repository'; entries: Entry[] }
  | { do: 'trust'; yes: boolean }
  | { do: 'reconsider' }
  | { do: 'revoke' }
  | { do: 'wait'; ms: number }
  | { do: 'restart' }
  | { do: 'fail'; mode: Failure }

const level = constantFrom(...boundaryLevels)
const hosts = constantFrom<string[]>([], ['a.test:1'], ['b.test:1'], ['a.test:1', 'b.test:1'])
const entries = array(record({ level, hosts: constantFrom<string[]>([], ['a.test'], ['*.test']) }), {
  maxLength: 2,
})
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
  { weight: 2, arbitrary: record({ do: constant('repository'), entries }) },
  record({ do: constant('trust'), yes: boolean() }),
  { weight: 2, arbitrary: record({ do: constant('reconsider') }) },
  record({ do: constant('revoke') }),
  record({ do: constant('wait'), ms: constantFrom(1_000, 120_000, 3_600_000, -3_600_000) }),
  record({ do: constant('restart') }),
  {
    weight: 2,
    arbitrary: record({ do: constant('fail'), mode: constantFrom('before', 'after', 'gone', 'overtaken') }),
  },
) as Arbitrary<Command>

/**
 * The oracle knows nothing of the machine: it keeps a list of what persons and files have said, and holds what
 * the (played) sandbox really does against it.
 */
class Oracle {
  said: Entry[]
  maximum: BoundaryLevel = 'full'
  auto = false
  user: Entry[] = []
  repository: Entry[] = []
  repositoryTrusted = false
  savedToProject: Entry[] = []
  task: Entry[] = []
  narrowed = false
  /** What persons took back, and what they gave since. */
  taken: string[] = []
  back: string[] = []

  constructor(start: BoundaryLevel) {
    this.said = [{ level: start, hosts: [] }]
  }

  /** Files may be acted on whenever a request is filed or the config is looked at again. */
  filesSpeak(source: RequestSource, wished: readonly string[]): void {
    // What a program prints is a suggestion: no file speaks for it.
    if (this.narrowed || source === 'output') return
    this.said.push(...this.user, ...this.savedToProject, ...(this.repositoryTrusted ? this.repository : []))
    if (this.auto && (source === 'broker' || source === 'driver')) {
      this.said.push({ level: 'network', hosts: [...wished] })
    }
  }

  /** Whether nobody need be asked: an earlier yes reaches so far, or the policy answers what was denied. */
  speaksFor({ to, hosts: wished, source }: BoundaryRequest, now: BoundaryLevel): boolean {
    if (this.narrowed || source === 'output') return false
    const earlier = [...this.user, ...this.savedToProject, ...this.task]
    const trusted = this.repositoryTrusted ? this.repository : []
    // Where the level stays, a host is answered by whoever named it, at whatever level.
    const isForHosts = wished.length > 0 && boundaryRank(to) <= boundaryRank(now)
    const reaches = [...earlier, ...trusted].some(
      (entry) =>
        boundaryRank(entry.level) >= boundaryRank(to) ||
        (isForHosts && wished.every((host) => someHostCovers(entry.hosts, host))),
    )
    return reaches || (this.auto && (source === 'broker' || source === 'driver'))
  }

  /** A person took rights back: from here on only a person widens. */
  narrow(to: BoundaryLevel): void {
    this.said = [{ level: to, hosts: [] }]
    this.back = []
    this.narrowed = true
  }

  /** The level stays, and so do the other hosts. */
  take(taken: string): void {
    const isLeft = (host: string) => !someHostCovers([taken], host)
    this.said = this.said.map((entry) => ({ ...entry, hosts: entry.hosts.filter(isLeft) }))
    this.back = this.back.filter(isLeft)
    this.taken.push(taken)
    this.narrowed = true
  }

  /** What widened it was allowed by the maximum as it was then. */
  checkMaximum(before: BoundaryLevel, live: { level: BoundaryLevel }): void {
    if (boundaryRank(live.level) <= boundaryRank(before)) return
    expect(boundaryRank(live.level), `maximum ${this.maximum}`).toBeLessThanOrEqual(
      boundaryRank(this.maximum),
    )
  }

  check(live: Held): void {
    for (const host of ['a.test:1', 'b.test:1']) {
      if (!someHostCovers(this.taken, host) || someHostCovers(this.back, host)) continue
      expect(isTaken(live, host), `taken ${host}`).toBe(true)
    }
    const widest = Math.max(...this.said.map((entry) => boundaryRank(entry.level)))
    expect(boundaryRank(live.level), `level ${live.level}`).toBeLessThanOrEqual(widest)
    const full = this.said.some((entry) => entry.level === 'full')
    for (const host of live.hosts) {
      expect(full || this.said.some((entry) => someHostCovers(entry.hosts, host)), `host ${host}`).toBe(true)
    }
  }
}

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
]

test('whatever the sequence of requests, saves, reloads, failures and restarts, the boundary never exceeds what a person or a config has said', async () => {
  await using theatre = await Theatre.open()
  let widenings = 0
  await assert(
    asyncProperty(level, array(command, { minLength: 4, maxLength: 24 }), async (start, commands) => {
      const set = await theatre.stage(start)
      const oracle = new Oracle(start)
      let { boundaries } = set
      let failing: Failure | null = null
      for (const step of commands) {
        const before = set.live.level
        try {
          await act(step)
        } catch (error) {
          // Refusals are answers; anything else is a fault of ours, but for the failures that we play.
          if (failing === 'overtaken' && set.failsNext === null) {
            // A person took it all back in the middle.
            oracle.narrow('readonly')
          }
          if (
            !(error instanceof OrangeryError) &&
            !/EBUSY|the line broke|nobody is there/.test(String(error))
          )
            throw error
        }
        failing = set.failsNext
        oracle.check(set.live)
        oracle.checkMaximum(before, set.live)
        if (boundaryRank(set.live.level) > boundaryRank(start)) widenings++
      }

      async function act(step: Command): Promise<void> {
        switch (step.do) {
          case 'request':
            oracle.filesSpeak(step.source, step.hosts)
            {
              const now = boundaries.show(set.id).level ?? 'readonly'
              const filed = await boundaries.request(set.id, { ...step, by: step.source, why: 'test' })
              const isGranted = filed.status === 'approved' && filed.answer?.way !== 'config'
              if (isGranted) expect(oracle.speaksFor(filed, now), `${filed.source} ${filed.to}`).toBe(true)
            }
            break
          case 'approve': {
            const open = boundaries.show(set.id).requests.filter(({ status }) => status === 'open')
            // What nobody may grant holds up none of the others.
            const given = open
              .filter(({ to }) => boundaryRank(to) <= boundaryRank(oracle.maximum))
              .map(({ to, hosts: named }) => ({ level: to, hosts: named }))
            oracle.said.push(...given)
            oracle.back.push(...given.flatMap((entry) => entry.hosts))
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
            oracle.user = [...step.entries]
            oracle.auto = step.auto
            oracle.maximum = step.maximum
            await set.user({
              sandboxApprovedEscalations: step.entries.map((entry) => ({ agent: '*', ...entry })),
              sandboxMaximumBoundary: step.maximum,
              sandboxEscalationPolicy: step.auto ? 'auto' : 'prompt',
              sandboxAutoEscalation: { hosts: ['a.test'], roots: [theatre.home] },
            })
            break
          case 'repository':
            oracle.repository = step.entries
            oracle.repositoryTrusted = false
            oracle.savedToProject = []
            await set.own({
              sandboxApprovedEscalations: step.entries.map((entry) => ({ agent: '*', ...entry })),
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
            for (const { source, hosts: wished, status } of boundaries.show(set.id).requests) {
              if (status === 'open') oracle.filesSpeak(source, wished)
            }
            await boundaries.reconsider(set.id)
            if (boundaryRank(set.live.level) > boundaryRank(oracle.maximum)) {
              throw new Error(`${set.live.level} stayed above the maximum ${oracle.maximum}`)
            }
            break
          case 'revoke': {
            const [first] = (await boundaries.approvals([set.project])).saved
            if (first !== undefined) await boundaries.revoke(first.id, [set.project])
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
