import { existsSync, mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BoundaryLevel } from '../../shared/boundary.ts'
import { agentCardSchema } from '../../shared/card.ts'
import type { ConfigFile } from '../../shared/config.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { EventBody } from '../../shared/events.ts'
import { makeDispatchId, type DispatchId } from '../../shared/ids.ts'
import type { SandboxSpec } from '../../shared/spec.ts'
import type { Contract } from '../base/contract.ts'
import type { EscalationRecords } from '../base/escalation.ts'
import { openStore, type Store } from '../store/index.ts'
import { Boundaries } from './boundaries.ts'
import { trustProject, trustQuestion } from './config/trusting.ts'
import { defaultConfig } from './config/merge.ts'
import { resolveContract } from './contract.ts'
import { current, type Held } from './step.ts'
import { nothingTaken } from './taken.ts'

/** `overtaken`: a person narrows it to readonly meanwhile, and then it fails. `ended`: it took, and then the run was over. */
export type Failure = 'before' | 'after' | 'gone' | 'overtaken' | 'ended'

/** What an agent asks for whose install has no way out. */
export const wish = {
  to: 'network',
  hosts: ['registry.test:443'],
  source: 'agent',
  by: 'agent',
  why: 'npm install',
} as const

export const contractOf = (project: string, spec: SandboxSpec): Contract =>
  resolveContract({
    spec,
    legacySandbox: null,
    card: agentCardSchema.parse({ id: 'command', name: 'Command' }),
    phase: null,
    role: null,
    roots: [project],
    config: defaultConfig(),
    parent: null,
  })

/** Puts a folder in the place of a config, which then can be neither read nor written; the way back. */
function obstruct(file: string): () => void {
  const aside = `${file}.aside`
  const isThere = existsSync(file)
  if (isThere) renameSync(file, aside)
  mkdirSync(file)
  return () => {
    rmdirSync(file)
    if (isThere) renameSync(aside, file)
  }
}

/** A folder and a database, both real, for as many played dispatches as a test needs. */
export class Theatre implements AsyncDisposable {
  readonly home: string
  readonly store: Store
  #counter = 0
  #ids = 0

  private constructor(home: string, store: Store) {
    this.home = home
    this.store = store
  }

  static async open(): Promise<Theatre> {
    const home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-boundaries-')))
    return new Theatre(home, await openStore(join(home, 'data')))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.store.close()
    await rm(this.home, { recursive: true, force: true })
  }

  /** A supervisor that follows the records, as the real one does, and fails when told to. */
  async stage(start: BoundaryLevel = 'readwrite', agent = 'claude', phase?: string) {
    const { home, store } = this
    const number = ++this.#counter
    const project = join(home, `project-${number}`)
    const userConfigDir = join(home, `config-${number}`)
    await mkdir(project)
    await mkdir(userConfigDir)
    const id = this.newId()
    this.addDispatch(id, project, start, agent, null, phase)
    const live: { -readonly [K in keyof Held]: Held[K] } = { level: start, hosts: [], ...nothingTaken }
    const events: EventBody[] = []
    const contracts = new Map<DispatchId, Contract>([[id, contractOf(project, { boundary: start })]])
    let failure: Failure | null = null
    let spoil: (() => void) | null = null
    const known = store.boundaries
    const records: EscalationRecords = {
      read: (of) => known.read(of),
      change: (of, change) => {
        const result = known.change(of, change)
        spoil?.()
        return result
      },
      openRequests: () => known.openRequests(),
      taskApprovals: () => known.taskApprovals(),
      revokeTaskApproval: (approval, at) => known.revokeTaskApproval(approval, at),
      descendants: (of) => known.descendants(of),
      unfinished: () => known.unfinished(),
    }
    let now = new Date('2026-01-01T12:00:00Z')
    const make = (): Boundaries =>
      new Boundaries({
        records,
        userConfigDir,
        apply: async (of) => {
          const mode = failure
          failure = null
          if (mode === 'overtaken') {
            await make().narrow(of, { to: 'readonly', by: 'person', why: 'enough', way: 'narrowed' })
            throw new Error('the holder said EBUSY')
          }
          if (mode === 'gone') throw new Error('nobody is there')
          if (mode === 'before') throw new Error('the holder said EBUSY')
          Object.assign(live, current(store.boundaries.read(of)))
          if (mode === 'after') throw new Error('the line broke')
          if (mode === 'ended') throw new OrangeryError('dispatch.not_running', `${of}: is completed`)
        },
        contractOf: async (of) => {
          const contract = contracts.get(of)
          if (contract === undefined) throw new Error('there is none')
          return contract
        },
        tell: async (_of, event) => void events.push(event),
        onChange: (listener) => store.onChange(listener),
        now: () => now,
      })
    return {
      id,
      project,
      userConfigDir,
      live,
      events,
      contracts,
      make,
      boundaries: make(),
      get failsNext() {
        return failure
      },
      failNext: (mode: Failure) => {
        failure = mode
      },
      /** The file cannot be written from the moment a yes is on record; until it is disposed of. */
      unsaved: (scope: 'project' | 'user'): Disposable => {
        const file = scope === 'user' ? join(userConfigDir, 'config.json') : join(project, '.orangery.json')
        let restore = () => {}
        spoil = () => {
          spoil = null
          restore = obstruct(file)
        }
        return {
          [Symbol.dispose]() {
            spoil = null
            restore()
          },
        }
      },
      advance: (ms: number) => {
        now = new Date(now.getTime() + ms)
      },
      now: () => now,
      user: (config: ConfigFile) => writeFile(join(userConfigDir, 'config.json'), JSON.stringify(config)),
      own: (config: ConfigFile) => writeFile(join(project, '.orangery.json'), JSON.stringify(config)),
      trust: async () => {
        const { sha256 } = await trustQuestion(userConfigDir, project)
        if (sha256 !== null) await trustProject(userConfigDir, project, { sha256, by: 'person', at: now })
      },
    }
  }

  newId(): DispatchId {
    const number = ++this.#ids
    return makeDispatchId(new Date(2026, 0, 1, 0, 0, number), new Uint8Array([number >> 8, number & 255]))
  }

  addDispatch(
    id: DispatchId,
    root: string,
    boundary: BoundaryLevel,
    agent: string,
    parentId: string | null,
    phase = 'build',
  ): void {
    this.store.dispatches.create({
      id,
      repoId: null,
      parentId,
      name: null,
      agent,
      role: null,
      phase,
      prompt: null,
      sandbox: null,
      sandboxSpec: null,
      level: 1,
      boundary,
      roots: [root],
      command: ['true'],
      status: 'starting',
      error: null,
      createdAt: '2026-01-01T12:00:00.000Z',
    })
  }
}
