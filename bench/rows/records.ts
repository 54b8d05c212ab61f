import Sqlite, { type Database } from 'better-sqlite3'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { makeDispatchId, type DispatchId } from '../../src/shared/ids.ts'
import { openStore, type NewDispatch, type Outcome, type Store } from '../../src/engine/store/index.ts'
import type { Contender, Row } from '../row.ts'
import { benchFolder } from '../trees.ts'

const perSample = 20
const listed = 100
const stored = 100_000

function aDispatch(id: DispatchId, createdAt: string): NewDispatch {
  return {
    id,
    repoId: null,
    parentId: null,
    name: 'benchmark',
    agent: 'command',
    role: null,
    phase: 'build',
    prompt: 'measure the records',
    sandbox: null,
    sandboxSpec: '{"access_mode":"workspace-write","isolation":"os","limits":{"memory_mb":4096}}',
    level: 1,
    boundary: 'readwrite',
    roots: ['/home/someone/project'],
    command: ['npm', 'test'],
    status: 'starting',
    error: null,
    createdAt,
  }
}

const outcome: Outcome = {
  status: 'completed',
  exitCode: 0,
  error: null,
  effective: {
    tools_used: ['Read', 'Bash'],
    access_mode: 'workspace-write',
    turns_used: 23,
    commands_used: 47,
    violations: [],
    level: 1,
    driver: 'bubblewrap 0.8.0',
    workspace: 'overlay',
    boundary_history: [],
    network: { allowed: [], denied: [] },
    resources: { wall_ms: 1000, cpu_ms: 800, max_rss_mb: 120, disk_mb: 4 },
    declared_equals_actual: { ok: true, checks: [] },
  },
  endedAt: '2026-01-28T12:06:00.000Z',
  lastEventHash: null,
}

const startedAt = '2026-01-28T12:05:00.000Z'

/** Ids of one bench run, a second apart, so that none is drawn twice. */
function* freshIds(): Generator<{ id: DispatchId; createdAt: string }> {
  for (let at = Date.parse('2026-01-01T00:00:00.000Z'); ; at += 1000) {
    const now = new Date(at)
    yield { id: makeDispatchId(now, randomBytes(2)), createdAt: now.toISOString() }
  }
}

const bareColumns = `id TEXT PRIMARY KEY NOT NULL, parent_id TEXT, name TEXT, agent TEXT, role TEXT, phase TEXT,
  prompt TEXT, status TEXT NOT NULL, sandbox TEXT, sandbox_spec TEXT, sandbox_effective TEXT, exit_code INTEGER,
  error TEXT, created_at TEXT NOT NULL, started_at TEXT, ended_at TEXT, repo_id TEXT, level INTEGER, boundary TEXT,
  roots TEXT, command TEXT, supervisor_pid INTEGER, supervisor_start_ticks INTEGER, last_event_hash TEXT`

/** The same statements with nothing around them: no triggers, no change feed, no mapping. */
function bareStatements(database: Database) {
  return {
    insert: database.prepare(
      `INSERT INTO dispatches (id, name, agent, phase, prompt, sandbox_spec, level, boundary, roots, command,
         status, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'starting', ?)`,
    ),
    run: database.prepare(
      `UPDATE dispatches SET status = 'running', started_at = ?, supervisor_pid = ?, supervisor_start_ticks = ?
       WHERE id = ? AND status = 'starting'`,
    ),
    finish: database.prepare(
      `UPDATE dispatches SET status = ?, exit_code = ?, sandbox_effective = ?, ended_at = ?
       WHERE id = ? AND status IN ('starting', 'running')`,
    ),
  }
}

function recordBare(statements: ReturnType<typeof bareStatements>, dispatch: NewDispatch): void {
  const { id, name, agent, phase, prompt, sandboxSpec, level, boundary } = dispatch
  const lists = [JSON.stringify(dispatch.roots), JSON.stringify(dispatch.command)]
  statements.insert.run(
    id,
    name,
    agent,
    phase,
    prompt,
    sandboxSpec,
    level,
    boundary,
    ...lists,
    dispatch.createdAt,
  )
  statements.run.run(startedAt, 4711, 99, id)
  statements.finish.run(
    outcome.status,
    outcome.exitCode,
    JSON.stringify(outcome.effective),
    outcome.endedAt,
    id,
  )
}

function recordOurs({ dispatches }: Store, dispatch: NewDispatch): void {
  dispatches.create(dispatch)
  dispatches.markRunning(dispatch.id, { startedAt, supervisorPid: 4711, supervisorStartTicks: 99 })
  dispatches.finish(dispatch.id, outcome)
}

async function bareDatabase(
  scope: AsyncDisposableStack,
  folder: string,
  synchronous: string,
): Promise<Database> {
  const database = new Sqlite(join(folder, `bare-${synchronous}.db`))
  scope.defer(() => void database.close())
  database.pragma('journal_mode = WAL')
  database.pragma(`synchronous = ${synchronous}`)
  database.exec(`CREATE TABLE dispatches (${bareColumns})`)
  database.exec('CREATE INDEX dispatches_newest ON dispatches (created_at, id)')
  return database
}

const recording: Row = {
  name: `recording ${perSample} dispatches (create, running, terminal)`,
  samples: 40,
  warmups: 3,
  async prepare(scope) {
    const folder = await mkdtemp(join(await benchFolder(), 'records-'))
    const store = scope.use(await openStore(join(folder, 'data')))
    const ids = freshIds()
    const each = (record: (dispatch: NewDispatch) => void) => async () => {
      for (let count = 0; count < perSample; count++) {
        const { id, createdAt } = ids.next().value
        record(aDispatch(id, createdAt))
      }
    }
    const bare = async (name: string, synchronous: string): Promise<Contender> => {
      const statements = bareStatements(await bareDatabase(scope, folder, synchronous))
      return { name, sample: each((dispatch) => recordBare(statements, dispatch)) }
    }
    return {
      subject: { name: 'the store', sample: each((dispatch) => recordOurs(store, dispatch)) },
      peers: [
        await bare('bare statements, as durable', 'FULL'),
        await bare('bare statements, default durability', 'NORMAL'),
      ],
      limits: [{ against: 'bare statements, as durable', atMost: 3 }],
    }
  },
}

const listing: Row = {
  name: `listing the newest ${listed} of ${stored.toLocaleString('en')} dispatches`,
  samples: 60,
  warmups: 5,
  async prepare(scope) {
    const folder = await mkdtemp(join(await benchFolder(), 'records-'))
    const store = scope.use(await openStore(join(folder, 'data')))
    const { sqlite } = store.database
    const ids = freshIds()
    sqlite.transaction(() => {
      for (let count = 0; count < stored; count++) {
        const { id, createdAt } = ids.next().value
        recordOurs(store, aDispatch(id, createdAt))
      }
    })()
    const bare = sqlite.prepare('SELECT * FROM dispatches ORDER BY created_at DESC, id DESC LIMIT ?')
    const rowBare = sqlite.prepare(
      `SELECT id, parent_id, name, agent, role, phase, prompt, status, sandbox, exit_code, error, created_at,
         started_at, ended_at, level, boundary, roots, command
       FROM dispatches ORDER BY created_at DESC, id DESC LIMIT ?`,
    )
    return {
      subject: { name: 'the store', sample: async () => void store.dispatches.list({ limit: listed }) },
      peers: [
        { name: 'the bare query, same columns', sample: async () => void rowBare.all(listed) },
        { name: 'the bare query, every column', sample: async () => void bare.all(listed) },
      ],
      limits: [{ against: 'the bare query, same columns', atMost: 3 }],
    }
  },
}

type Word = { readonly what: string; readonly id: string; readonly at: string }

/** A second process with the same data folder, as a command line is beside the window. */
function secondHost(scope: AsyncDisposableStack, dataDir: string) {
  const script = join(import.meta.dirname, '..', 'secondHost.main.ts')
  const child = spawn(process.execPath, [script, dataDir], { stdio: ['pipe', 'pipe', 'inherit'] })
  scope.defer(async () => {
    child.stdin.end()
    if (child.exitCode === null) await once(child, 'exit')
  })
  const waiting = new Map<string, (at: bigint) => void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { what, id, at } = JSON.parse(line) as Word
    waiting.get(`${what} ${id}`)?.(BigInt(at))
  })
  return {
    hears: (what: string, id: string) =>
      new Promise<bigint>((resolve) => waiting.set(`${what} ${id}`, resolve)),
    write: (dispatch: NewDispatch) => child.stdin.write(`${JSON.stringify(dispatch)}\n`),
  }
}

const milliseconds = (from: bigint, to: bigint): number => Number(to - from) / 1e6

const seeing: Row = {
  name: "seeing another process's change",
  samples: 5,
  warmups: 1,
  async prepare(scope) {
    const folder = await mkdtemp(join(await benchFolder(), 'records-'))
    const window = scope.use(await openStore(join(folder, 'data')))
    const other = secondHost(scope, join(folder, 'data'))
    await other.hears('ready', '')
    const ids = freshIds()
    const waiting = new Map<string, (at: bigint) => void>()
    scope.defer(
      window.onChange((changed) => {
        for (const id of changed) waiting.get(id)?.(process.hrtime.bigint())
      }),
    )
    /** From the commit there to the word here. */
    const windowIsTold = async () => {
      const { id, createdAt } = ids.next().value
      const told = new Promise<bigint>((resolve) => waiting.set(id, resolve))
      const wrote = other.hears('wrote', id)
      other.write(aDispatch(id, createdAt))
      return milliseconds(await wrote, await told)
    }
    const commandLineIsTold = async () => {
      const { id, createdAt } = ids.next().value
      const told = other.hears('told', id)
      window.dispatches.create(aDispatch(id, createdAt))
      return milliseconds(process.hrtime.bigint(), await told)
    }
    /** One in thirty that comes late is late: what is judged are the worst ones. */
    const slowest = async () => {
      const times: number[] = []
      for (let round = 0; round < 30; round++) times.push(await windowIsTold(), await commandLineIsTold())
      return Math.max(...times)
    }
    return {
      subject: { name: 'the slowest of 30, both ways', sample: slowest },
      peers: [{ name: '300 ms', sample: async () => 300 }],
      limits: [{ against: '300 ms', atMost: 1 }],
    }
  },
}

export const rows = [recording, listing, seeing]
