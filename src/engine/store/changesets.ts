import type { Database, Statement } from 'better-sqlite3'
import type { ChangesetState, Transition, Verdict } from '../../shared/changeset.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type {
  ApplyRecord,
  CaptureRecord,
  ChangesetRecord,
  ChangesetRecords,
  CommentRecord,
  DecisionPlace,
  DecisionRecord,
  ResolutionRecord,
  TurnRecord,
} from '../base/changesetRecords.ts'
import type { Workspace } from '../base/workspace.ts'
import type { StoreDatabase } from './database.ts'
import { nextFlag } from './flag.ts'

type Row = Record<string, string | number | null>

/** Changesets and everything decided about them. Plain SQL: one statement per sentence of the interface. */
export class StoredChangesets implements ChangesetRecords {
  readonly #sqlite: Database
  readonly #attempt: StoreDatabase['attempt']
  readonly #announce: (id: string) => void
  readonly #statements = new Map<string, Statement>()

  constructor(database: StoreDatabase, announce: (id: string) => void) {
    this.#sqlite = database.sqlite
    this.#attempt = database.attempt
    this.#announce = announce
  }

  find(id: DispatchId): ChangesetRecord | null {
    const row = this.#sql('SELECT * FROM changesets WHERE id = ?').get(id) as Row | undefined
    return row === undefined ? null : recordOf(row)
  }

  list(): readonly ChangesetRecord[] {
    return (this.#sql('SELECT * FROM changesets ORDER BY id DESC').all() as Row[]).map(recordOf)
  }

  capture(record: Omit<ChangesetRecord, 'state' | 'escalated'>, capture: CaptureRecord, by: string): void {
    this.#write(record.id, () => {
      const isNew = this.find(record.id) === null
      const { repoId, revision, files, insertions, deletions, updatedAt } = record
      const workspace = JSON.stringify(record.workspace)
      const values = [repoId, revision, files, insertions, deletions, workspace, updatedAt]
      if (isNew) {
        this.#sql(
          `INSERT INTO changesets (repo_id, revision, files, insertions, deletions, workspace, updated_at, state, id)
           VALUES (?, ?, ?, ?, ?, ?, ?, 'active', ?)`,
        ).run(...values, record.id)
        this.#addTransition(record.id, null, 'active', by, 'the agent changed files', capture.at)
      } else {
        this.#sql(
          `UPDATE changesets SET repo_id = ?, revision = ?, files = ?, insertions = ?, deletions = ?,
           workspace = ?, updated_at = ? WHERE id = ?`,
        ).run(...values, record.id)
      }
      this.#sql(
        `INSERT INTO changeset_captures (changeset_id, revision, at, final, turn) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET at = excluded.at, final = excluded.final, turn = excluded.turn`,
      ).run(record.id, capture.revision, capture.at, capture.final ? 1 : 0, capture.turn)
    })
  }

  forget(id: DispatchId): void {
    this.#write(id, () => {
      for (const part of [
        'transitions',
        'decisions',
        'comments',
        'resolutions',
        'captures',
        'reviews',
        'applies',
        'turns',
      ]) {
        this.#sql(`DELETE FROM changeset_${part} WHERE changeset_id = ?`).run(id)
      }
      this.#sql('DELETE FROM changesets WHERE id = ?').run(id)
    })
  }

  captures(id: DispatchId): readonly CaptureRecord[] {
    const rows = this.#sql('SELECT * FROM changeset_captures WHERE changeset_id = ? ORDER BY at').all(
      id,
    ) as Row[]
    return rows.map((row) => ({
      revision: String(row['revision']),
      at: String(row['at']),
      final: row['final'] === 1,
      turn: Number(row['turn']),
    }))
  }

  transition(
    id: DispatchId,
    from: readonly ChangesetState[],
    to: ChangesetState,
    by: string,
    why: string,
  ): boolean {
    return this.#move(id, from, to, by, why)
  }

  startTurn(
    id: DispatchId,
    from: readonly ChangesetState[],
    dispatch: DispatchId,
    by: string,
    why: string,
  ): boolean {
    return this.#move(id, from, 'active', by, why, (at) =>
      this.#sql('INSERT INTO changeset_turns (dispatch_id, changeset_id, at, by) VALUES (?, ?, ?, ?)').run(
        dispatch,
        id,
        at,
        by,
      ),
    )
  }

  /** Only out of a state it may leave, as it is at that moment. */
  #move(
    id: DispatchId,
    from: readonly ChangesetState[],
    to: ChangesetState,
    by: string,
    why: string,
    besides: (at: string) => unknown = () => {},
  ): boolean {
    return this.#write(id, () => {
      const state = this.find(id)?.state
      if (state === undefined || !from.includes(state)) return false
      const at = new Date().toISOString()
      besides(at)
      this.#setState(id, state, to, by, why, at)
      return true
    })
  }

  turns(id: DispatchId): readonly TurnRecord[] {
    const rows = this.#sql(
      'SELECT * FROM changeset_turns WHERE changeset_id = ? ORDER BY at, dispatch_id',
    ).all(id)
    return (rows as Row[]).map((row) => ({
      dispatch: row['dispatch_id'] as DispatchId,
      at: String(row['at']),
      by: String(row['by']),
    }))
  }

  changesetOf(dispatch: DispatchId): DispatchId {
    const row = this.#sql('SELECT changeset_id FROM changeset_turns WHERE dispatch_id = ?').get(dispatch)
    return (row as { changeset_id: DispatchId } | undefined)?.changeset_id ?? dispatch
  }

  transitions(id: DispatchId): readonly Transition[] {
    const rows = this.#sql('SELECT * FROM changeset_transitions WHERE changeset_id = ? ORDER BY seq').all(id)
    return (rows as Row[]).map((row) => ({
      at: String(row['at']),
      from: row['from_state'] as ChangesetState | null,
      to: row['to_state'] as ChangesetState,
      by: String(row['by']),
      why: String(row['why']),
    }))
  }

  escalate(id: DispatchId, why: string | null, by: string): void {
    this.#write(id, () => {
      const known = this.find(id)
      if (known === null) return
      const { escalated, said } = nextFlag(known.escalated, this.transitions(id), why, by)
      if (known.escalated === escalated) return
      this.#sql('UPDATE changesets SET escalated = ? WHERE id = ?').run(escalated, id)
      this.#addTransition(id, known.state, known.state, by, said, new Date().toISOString())
    })
  }

  decisions(id: DispatchId): readonly DecisionRecord[] {
    const rows = this.#sql('SELECT * FROM changeset_decisions WHERE changeset_id = ?').all(id) as Row[]
    return rows.map((row) => ({ ...placeOf(row), verdict: row['verdict'] as Verdict }))
  }

  decide(
    id: DispatchId,
    decisions: readonly (Omit<DecisionRecord, 'verdict'> & { readonly verdict: Verdict | null })[],
  ): void {
    this.#write(id, () => {
      for (const { verdict, ...decision } of decisions) {
        if (verdict === null) this.#removeDecision(id, decision)
        else this.#addDecision(id, { ...decision, verdict })
      }
      this.#sql('UPDATE changesets SET updated_at = ? WHERE id = ?').run(new Date().toISOString(), id)
    })
  }

  #addDecision(id: DispatchId, { root, path, hunk, anchor, verdict, by, at }: DecisionRecord): void {
    this.#sql(
      `INSERT OR REPLACE INTO changeset_decisions
       (changeset_id, root, path, hunk, anchor, verdict, by, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ).run(id, root, path, hunk ?? '', anchor, verdict, by, at)
  }
  #removeDecision(id: DispatchId, { root, path, hunk }: DecisionPlace): void {
    this.#sql(
      'DELETE FROM changeset_decisions WHERE changeset_id = ? AND root = ? AND path = ? AND hunk = ?',
    ).run(id, root, path, hunk ?? '')
  }

  move(id: DispatchId, { decisions, comments }: Parameters<ChangesetRecords['move']>[1]): void {
    this.#write(id, () => {
      for (const { from } of decisions) this.#removeDecision(id, from)
      for (const { to } of decisions) if (to !== null) this.#addDecision(id, to)
      for (const { from, to } of comments) {
        this.#sql(
          `UPDATE changeset_comments SET path = ?, hunk = ?, anchor = ?
           WHERE changeset_id = ? AND root = ? AND path = ? AND hunk = ? AND anchor = ? AND at = ?`,
        ).run(
          to.path,
          to.hunk ?? '',
          to.anchor,
          id,
          from.root,
          from.path,
          from.hunk ?? '',
          from.anchor,
          from.at,
        )
      }
    })
  }

  comments(id: DispatchId): readonly CommentRecord[] {
    const rows = this.#sql('SELECT * FROM changeset_comments WHERE changeset_id = ? ORDER BY seq').all(id)
    return (rows as Row[]).map((row) => ({ ...placeOf(row), text: String(row['text']) }))
  }

  comment(id: DispatchId, { root, path, hunk, anchor, text, by, at }: CommentRecord): void {
    this.#write(id, () =>
      this.#sql(
        `INSERT INTO changeset_comments (changeset_id, root, path, hunk, anchor, text, by, at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ).run(id, root, path, hunk ?? '', anchor, text, by, at),
    )
  }

  resolutions(id: DispatchId): readonly ResolutionRecord[] {
    const rows = this.#sql('SELECT * FROM changeset_resolutions WHERE changeset_id = ?').all(id) as Row[]
    return rows.map((row) => ({
      ...placeOf(row),
      choice: row['choice'] as ResolutionRecord['choice'],
      content: row['content'] as string | null,
    }))
  }

  resolve(id: DispatchId, { root, path, anchor, choice, content, by, at }: ResolutionRecord): void {
    this.#write(id, () =>
      this.#sql(
        `INSERT OR REPLACE INTO changeset_resolutions
         (changeset_id, root, path, anchor, choice, content, by, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ).run(id, root, path, anchor, choice, content, by, at),
    )
  }

  unresolve(id: DispatchId, { root, path }: Pick<ResolutionRecord, 'root' | 'path'>): void {
    this.#write(id, () =>
      this.#sql('DELETE FROM changeset_resolutions WHERE changeset_id = ? AND root = ? AND path = ?').run(
        id,
        root,
        path,
      ),
    )
  }

  reviewed(id: DispatchId, by: string): string | null {
    const row = this.#sql('SELECT revision FROM changeset_reviews WHERE changeset_id = ? AND by = ?').get(
      id,
      by,
    )
    return (row as { revision: string } | undefined)?.revision ?? null
  }

  reviewedRevisions(id: DispatchId): readonly string[] {
    const rows = this.#sql('SELECT revision FROM changeset_reviews WHERE changeset_id = ?').all(id)
    return (rows as { revision: string }[]).map((row) => row.revision)
  }

  markReviewed(id: DispatchId, by: string, revision: string, at: string): void {
    this.#attempt(() =>
      this.#sql(
        'INSERT OR REPLACE INTO changeset_reviews (changeset_id, by, revision, at) VALUES (?, ?, ?, ?)',
      ).run(id, by, revision, at),
    )
  }

  applies(id: DispatchId): readonly ApplyRecord[] {
    const rows = this.#sql('SELECT * FROM changeset_applies WHERE changeset_id = ? ORDER BY seq').all(
      id,
    ) as Row[]
    return rows.map((row) => ({
      transaction: String(row['transaction_id']),
      kind: row['kind'] as ApplyRecord['kind'],
      revision: String(row['revision']),
      at: String(row['at']),
      by: String(row['by']),
      state: row['state'] as ApplyRecord['state'],
    }))
  }

  recount(
    id: DispatchId,
    { files, insertions, deletions }: Parameters<ChangesetRecords['recount']>[1],
  ): void {
    this.#write(id, () =>
      this.#sql('UPDATE changesets SET files = ?, insertions = ?, deletions = ? WHERE id = ?').run(
        files,
        insertions,
        deletions,
        id,
      ),
    )
  }

  applied(
    id: DispatchId,
    apply: ApplyRecord,
    remains: Pick<ChangesetRecord, 'revision' | 'files' | 'insertions' | 'deletions'>,
    state: ChangesetState,
    why: string,
  ): void {
    this.#write(id, () => {
      // After a crash the same apply may be told twice.
      const known = this.#sql('SELECT 1 FROM changeset_applies WHERE transaction_id = ?').get(
        apply.transaction,
      )
      if (known !== undefined) return
      this.#sql(
        `INSERT INTO changeset_applies (transaction_id, changeset_id, kind, revision, at, by, state)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
      ).run(apply.transaction, id, apply.kind, apply.revision, apply.at, apply.by, apply.state)
      for (const undone of apply.undoes ?? [])
        this.#sql(`UPDATE changeset_applies SET state = 'undone' WHERE transaction_id = ?`).run(undone)
      this.#sql(
        'UPDATE changesets SET revision = ?, files = ?, insertions = ?, deletions = ?, updated_at = ? WHERE id = ?',
      ).run(remains.revision, remains.files, remains.insertions, remains.deletions, apply.at, id)
      const from = this.find(id)?.state ?? null
      this.#setState(id, from, state, apply.by, why, apply.at)
    })
  }

  #setState(
    id: DispatchId,
    from: ChangesetState | null,
    to: ChangesetState,
    by: string,
    why: string,
    at: string,
  ) {
    this.#sql('UPDATE changesets SET state = ?, updated_at = ? WHERE id = ?').run(to, at, id)
    this.#addTransition(id, from, to, by, why, at)
  }

  #addTransition(
    id: DispatchId,
    from: ChangesetState | null,
    to: ChangesetState,
    by: string,
    why: string,
    at: string,
  ): void {
    this.#sql(
      'INSERT INTO changeset_transitions (changeset_id, at, from_state, to_state, by, why) VALUES (?, ?, ?, ?, ?, ?)',
    ).run(id, at, from, to, by, why)
  }

  #write<T>(id: DispatchId, work: () => T): T {
    const result = this.#attempt(() => this.#sqlite.transaction(work).immediate())
    this.#announce(id)
    return result
  }

  #sql(text: string): Statement {
    let statement = this.#statements.get(text)
    if (statement === undefined) {
      statement = this.#sqlite.prepare(text)
      this.#statements.set(text, statement)
    }
    return statement
  }
}

function recordOf(row: Row): ChangesetRecord {
  return {
    id: row['id'] as DispatchId,
    repoId: row['repo_id'] as ChangesetRecord['repoId'],
    state: row['state'] as ChangesetState,
    revision: String(row['revision']),
    files: Number(row['files']),
    insertions: Number(row['insertions']),
    deletions: Number(row['deletions']),
    workspace: JSON.parse(String(row['workspace'])) as Workspace,
    updatedAt: String(row['updated_at']),
    escalated: row['escalated'] as string | null,
  }
}

function placeOf(row: Row) {
  return {
    root: String(row['root']),
    path: String(row['path']),
    hunk: row['hunk'] === '' || row['hunk'] == null ? null : String(row['hunk']),
    anchor: String(row['anchor']),
    by: String(row['by']),
    at: String(row['at']),
  }
}
