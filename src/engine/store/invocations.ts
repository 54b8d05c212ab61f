import type { DispatchId, RepoId } from '../../shared/ids.ts'
import { invocationMetaSchema, type InvocationMeta } from '../base/invocation.ts'
import type { StoreDatabase } from './database.ts'

export type MirroredInvocation = {
  readonly id: DispatchId
  readonly repoId: RepoId
  /** The record as it was last seen; null where a later release wrote something else. */
  readonly meta: InvocationMeta | null
}
type Row = { readonly id: string; readonly repo_id: string; readonly meta: string }

/**
 * What the records on disk say, for queries and for noticing that one was lost. `meta.json` is the truth:
 * nothing is ever decided by this copy, and it follows whatever is found on disk.
 */
export class InvocationMirror {
  readonly #database: StoreDatabase
  readonly #announce: (id: string) => void

  constructor(database: StoreDatabase, announce: (id: string) => void) {
    this.#database = database
    this.#announce = announce
  }

  /** Takes over records as they are on disk; says how many differed from what was known. */
  reflect(records: readonly { readonly repoId: RepoId; readonly meta: InvocationMeta }[]): number {
    const { sqlite, attempt } = this.#database
    const known = sqlite.prepare<[string], { meta: string }>('SELECT meta FROM invocations WHERE id = ?')
    const write = sqlite.prepare(
      `INSERT INTO invocations (id, repo_id, status, strategy, integration_worktree_id, sandbox_branch, outcome, meta)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET repo_id = excluded.repo_id, status = excluded.status,
         strategy = excluded.strategy, integration_worktree_id = excluded.integration_worktree_id,
         sandbox_branch = excluded.sandbox_branch, outcome = excluded.outcome, meta = excluded.meta`,
    )
    const changed: string[] = []
    attempt(() =>
      sqlite
        .transaction(() => {
          for (const { repoId, meta } of records) {
            const text = JSON.stringify(meta)
            const id = meta.invocation_id
            if (known.get(id)?.meta === text) continue
            const { status, strategy, integration_worktree_id, sandbox_branch, outcome } = meta
            write.run(id, repoId, status, strategy, integration_worktree_id, sandbox_branch, outcome, text)
            changed.push(id)
          }
        })
        .immediate(),
    )
    for (const id of changed) this.#announce(id)
    return changed.length
  }

  /** Lets go of one whose record is lost. False: it was not known. */
  forget(id: DispatchId): boolean {
    const { sqlite, attempt } = this.#database
    const { changes } = attempt(() => sqlite.prepare('DELETE FROM invocations WHERE id = ?').run(id))
    if (changes > 0) this.#announce(id)
    return changes > 0
  }

  list(): MirroredInvocation[] {
    const { sqlite, attempt } = this.#database
    const rows = attempt(() =>
      sqlite.prepare<[], Row>('SELECT id, repo_id, meta FROM invocations ORDER BY id').all(),
    )
    return rows.map(({ id, repo_id, meta }) => ({
      id: id as DispatchId,
      repoId: repo_id as RepoId,
      meta: invocationMetaSchema.safeParse(parse(meta)).data ?? null,
    }))
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
