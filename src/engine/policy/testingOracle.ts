import { expect } from 'vitest'
import { boundaryLevels, boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { SavedApproval } from '../../shared/config.ts'
import type { BoundaryGrant, BoundaryRequest } from '../../shared/escalation.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { Capabilities } from './capabilities.ts'
import { isTaken } from './taken.ts'
import type { Forbidding } from './testingPlays.ts'
import type { Held } from './step.ts'

/** One yes: of a person, or of a file. */
type Entry = SavedApproval

type Text = { readonly entries: readonly string[]; readonly rest: string; readonly all: string }
type Wish = Pick<BoundaryRequest, 'to' | 'hosts' | 'source'>

const atMost = (level: BoundaryLevel, other: BoundaryLevel) => boundaryRank(level) <= boundaryRank(other)
const narrower = (a: BoundaryLevel, b: BoundaryLevel) => (atMost(a, b) ? a : b)
const covered = (wished: readonly string[], hosts: readonly string[]) =>
  wished.every((host) => someHostCovers(hosts, host))
/** What comes with a level, besides the hosts that somebody named. */
const opens = ({ to, hosts }: Wish) => to === 'full' || (to === 'network' && hosts.length === 0)
const text = ({ level, hosts, agent, roots = [], expires = '', phase }: Entry) =>
  JSON.stringify([level, [...hosts].sort(), agent, roots, expires, phase ?? null])

/**
 * The oracle knows nothing of the machine: it keeps a list of what persons and files have said, and holds what
 * the (played) sandbox really does, and each grant on record, against it.
 */
export class Oracle {
  readonly #agent: string
  readonly #root: string
  readonly #now: () => Date
  said: Entry[]
  readonly #phase: string
  maximum: { user: BoundaryLevel; project: BoundaryLevel } = { user: 'full', project: 'full' }
  /** What each file says of the policy; the hosts and folders for it are the user's own to name. */
  policy: { user: boolean; autoHere: boolean; project: boolean | null } = {
    user: false,
    autoHere: true,
    project: null,
  }
  /** What each file keeps from an agent; trusted or not, neither lifts what the other says. */
  forbids: { user: Forbidding | null; project: Forbidding | null } = { user: null, project: null }
  user: Entry[] = []
  repository: Entry[] = []
  repositoryTrusted = false
  savedToProject: Entry[] = []
  task: Entry[] = []
  narrowed = false
  /** What persons took back, and what they gave since. */
  taken: string[] = []
  back: string[] = []
  /** Whether somebody opened the contract's own hosts. */
  opened: boolean
  #openedBefore: boolean
  /** Whether a person opened every host: by a yes to `full` that gave the level, or that named no host. */
  openedAll = false
  #openedAllBefore = false
  /** The project's file as somebody else wrote it, and the one that was trusted; null: one of no known text. */
  #file: Text | null = null
  #trusted: Text | null = null
  #grants = 0

  constructor(start: BoundaryLevel, agent: string, root: string, now: () => Date, phase = 'build') {
    this.#phase = phase
    this.#agent = agent
    this.#root = root
    this.#now = now
    this.said = [{ agent, level: start, hosts: [] }]
    this.opened = this.#openedBefore = atMost('network', start)
  }

  /** A repository's word for `prompt` always counts, its word for `auto` once it is trusted. In read-only phases nobody's. */
  get auto(): boolean {
    const { user, project, autoHere } = this.policy
    const said = this.repositoryTrusted ? (project ?? user) : user && project !== false
    return said && autoHere && this.#phase === 'build'
  }

  get ceiling(): BoundaryLevel {
    return narrower(this.maximum.user, this.maximum.project)
  }

  /** A host is network, at whichever level. */
  allows({ to, hosts }: Pick<Wish, 'to' | 'hosts'>): boolean {
    return atMost(to, this.ceiling) && (hosts.length === 0 || atMost('network', this.ceiling))
  }

  get #forbidden(): readonly Forbidding[] {
    return [this.forbids.user, this.forbids.project].filter((each) => each !== null)
  }

  /** Denied at one level it is denied at all. */
  denies(host: string): boolean {
    return this.#forbidden.some(({ hosts }) => someHostCovers(hosts, host))
  }

  /** What a person said counts for nothing where what was to follow did not come about. */
  attempt(): () => void {
    const { said, back, user, savedToProject, task } = this
    const [file, trusted] = [this.#file, this.#trusted]
    this.said = [...said]
    this.back = [...back]
    this.user = [...user]
    this.savedToProject = [...savedToProject]
    this.task = [...task]
    return () => {
      Object.assign(this, { said, back, user, savedToProject, task })
      this.#file = file
      this.#trusted = trusted
    }
  }

  /** Denials, tools and hidden files, as they hold at a level. */
  checkForbidden({ level, tools, files }: Capabilities, deny: readonly string[]): void {
    for (const each of this.#forbidden) {
      expect(covered(each.hosts, deny), `denied ${each.hosts.join()}`).toBe(true)
      if (!atMost(level, each.level)) continue
      expect(tools.deny, `tools at ${level}`).toEqual(expect.arrayContaining(each.tools))
      expect(files.hide, `hidden at ${level}`).toEqual(expect.arrayContaining(each.hide))
    }
  }

  /** What files and the task say, as far as it is for this agent, here and now. */
  #standing(): Entry[] {
    const trusted = this.repositoryTrusted ? this.repository : []
    return [...this.user, ...this.savedToProject, ...this.task, ...trusted].filter(
      ({ agent, roots, expires, phase }) =>
        (phase === undefined || phase === this.#phase) &&
        (agent === '*' || agent === this.#agent) &&
        (roots === undefined || roots.some((root) => root === '.' || root === this.#root)) &&
        (expires === undefined || new Date(expires) > this.#now()),
    )
  }

  /** Files may be acted on whenever a request is filed or the config is looked at again. */
  filesSpeak({ source, hosts }: Pick<Wish, 'source' | 'hosts'>): void {
    // What a program prints is a suggestion: no file speaks for it.
    if (this.narrowed || source === 'output') return
    this.said.push(...this.#standing())
    if (this.auto && (source === 'broker' || source === 'driver'))
      this.said.push({
        agent: this.#agent,
        level: 'network',
        hosts: hosts.filter((host) => covered([host], ['a.test'])),
      })
  }

  /** Whether nobody need be asked, where it stands at `from`: one earlier yes gives all of it, or the policy does. */
  speaksFor(wish: Wish, from: BoundaryLevel): boolean {
    const { to, hosts, source } = wish
    if (this.narrowed || source === 'output') return false
    const isDenial = source === 'broker' || source === 'driver'
    const isNamed = hosts.length > 0 ? covered(hosts, ['a.test']) : to === 'readwrite'
    if (this.auto && isDenial && isNamed && to !== 'full') return true
    const standing = this.#standing()
    const says = (at: BoundaryLevel) => (yes: Entry) => {
      // Without a host it is a yes to the level, and to every host only at `full`.
      if (yes.hosts.length === 0) return atMost(to, yes.level) && (hosts.length === 0 || yes.level === 'full')
      if (hosts.length === 0 || !covered(hosts, yes.hosts)) return false
      const isName = at === 'readwrite' && to === 'network' && atMost(to, yes.level)
      return atMost(to, at) || isName
    }
    // Files by one yes, and the host by another: as if it had asked for one after the other.
    const writes = standing.some((yes) => yes.hosts.length === 0 && atMost('readwrite', yes.level))
    return standing.some(says(from)) || (from === 'readonly' && writes && standing.some(says('readwrite')))
  }

  /**
   * What a person gives; what is kept of it is one yes for each level, and one for its hosts. Where files become writable
   * with a host, or everything opens, that is kept, too.
   */
  given(wishes: readonly Pick<Wish, 'to' | 'hosts'>[], from: BoundaryLevel): Entry[] {
    this.said.push(...wishes.map(({ to, hosts }) => ({ agent: this.#agent, level: to, hosts })))
    this.back.push(...wishes.flatMap(({ hosts }) => hosts))
    const opensFiles = from === 'readonly' && wishes.some(({ to }) => to === 'readwrite' || to === 'network')
    return boundaryLevels.flatMap((level) => {
      const alike = wishes.filter(({ to }) => to === level)
      const isWhole = level === 'full' && from !== 'full'
      const hosts = isWhole ? [] : [...new Set(alike.flatMap((wish) => wish.hosts))]
      const givesLevel = alike.some((wish) => wish.hosts.length === 0) || (isWhole && alike.length > 0)
      const givesFiles = level === 'readwrite' && opensFiles
      return [
        ...(givesLevel || givesFiles ? [{ level, hosts: [], agent: this.#agent }] : []),
        ...(hosts.length > 0 ? [{ level, hosts, agent: this.#agent }] : []),
      ]
    })
  }

  /** A person saves to the project's file: trust, where there was some, goes on with it. */
  saveToProject(given: readonly Entry[], roots: string[] | undefined): void {
    this.savedToProject.push(...given.map((yes) => (roots === undefined ? yes : { ...yes, roots })))
    if (given.length > 0 && this.repositoryTrusted) this.#trusted = null
    if (given.length > 0) this.#file = null
  }

  /** Somebody else writes the file: it is trusted where it is the trusted text, or that without some approvals. */
  writes(
    approvals: Entry[],
    rest: { sandboxMaximumBoundary: BoundaryLevel; sandboxEscalationPolicy?: 'auto' | 'prompt' },
  ): void {
    this.repository = approvals
    this.savedToProject = []
    this.maximum.project = rest.sandboxMaximumBoundary
    const { sandboxEscalationPolicy: policy } = rest
    this.policy.project = policy === undefined ? null : policy === 'auto'
    const entries = [...new Set(approvals.map(text))]
    this.#file = { entries, rest: JSON.stringify(rest), all: JSON.stringify(approvals) }
    const before = this.#trusted
    const isSame = before?.all === this.#file.all && before.rest === this.#file.rest
    const isLess =
      before !== null &&
      before.rest === this.#file.rest &&
      entries.length < before.entries.length &&
      entries.every((entry) => before.entries.includes(entry))
    if (isLess) this.#trusted = this.#file
    this.repositoryTrusted = isSame || isLess
  }

  trusts(yes: boolean): void {
    if (!yes) this.savedToProject = []
    this.repositoryTrusted = yes
    this.#trusted = yes ? this.#file : null
  }

  revoke(entry: Entry): void {
    const isLeft = (other: Entry) => text(other) !== text(entry)
    this.user = this.user.filter(isLeft)
    this.repository = this.repository.filter(isLeft)
    this.savedToProject = this.savedToProject.filter(isLeft)
  }

  /** A person took rights back: from here on only a person widens. */
  narrow(to: BoundaryLevel): void {
    this.said = [{ agent: this.#agent, level: to, hosts: [] }]
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

  /**
   * Each grant since the last look: who said so, to level and hosts together, and under which maximum. `isAnswered`: it
   * was a person.
   */
  checkGrants(
    { history, requests }: { history: readonly BoundaryGrant[]; requests: readonly BoundaryRequest[] },
    start: Pick<Held, 'level' | 'hosts'>,
    isAnswered: boolean,
  ): void {
    const before = history[this.#grants - 1]
    let held: Pick<Held, 'level' | 'hosts'> =
      before === undefined ? start : { level: before.to, hosts: before.hosts }
    for (const grant of history.slice(this.#grants)) {
      const named = (grant.request ?? '').split(',')
      const wishes = requests.filter(({ id }) => named.includes(id))
      const said = JSON.stringify(grant)
      const last = this.opened
      const lastAll = this.openedAll
      if (grant.way === 'undone') {
        this.opened = this.opened || this.#openedBefore
        this.openedAll &&= this.#openedAllBefore
      } else if (wishes.length > 0) {
        const added = grant.hosts.filter((host) => !held.hosts.includes(host))
        const wished = wishes.flatMap(({ hosts }) => hosts)
        expect(covered(added, wished), `hosts nobody wished: ${said}`).toBe(true)
        expect(
          added.filter((host) => this.denies(host)),
          `denied by a file: ${said}`,
        ).toEqual([])
        const highest = wishes.map(({ to }) => to).reduce((a, b) => (atMost(a, b) ? b : a), held.level)
        expect(atMost(grant.to, highest), `a level nobody wished: ${said}`).toBe(true)
        for (const wish of wishes) {
          expect(this.allows(wish), `beyond the maximum: ${said}`).toBe(true)
          if (isAnswered) continue
          // Who asks for a name is given ports of it, where no more was said.
          const ports = wish.source === 'broker' ? added.filter((host) => covered([host], wish.hosts)) : []
          const hosts = ports.length > 0 ? ports : wish.hosts
          const got = { ...wish, to: narrower(wish.to, grant.to), hosts }
          expect(this.speaksFor(got, held.level), `nobody said so: ${said}`).toBe(true)
        }
        if (wishes.some(opens)) this.opened = true
        const givesLevel = held.level !== 'full'
        if (isAnswered && wishes.some(({ to, hosts }) => to === 'full' && (givesLevel || hosts.length === 0)))
          this.openedAll = true
      }
      if (!atMost('network', grant.to)) this.opened = false
      if (grant.to !== 'full') this.openedAll = false
      this.#openedBefore = last
      this.#openedAllBefore = lastAll
      held = { level: grant.to, hosts: grant.hosts }
    }
    this.#grants = history.length
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
