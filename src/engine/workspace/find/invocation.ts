import { mkdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isTerminal } from '../../../shared/dispatch.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId, RepoId } from '../../../shared/ids.ts'
import { ensurePrivateDir, syncFile, writeFileAtomically } from '../../base/files.ts'
import { invocationMetaSchema, type InvocationMeta, type InvocationPatch } from '../../base/invocation.ts'
import { createRepoLock } from '../../base/lock.ts'
import type { Layout } from '../../base/paths.ts'
import type { Workspace } from '../../base/workspace.ts'
import { namesOwnSandbox } from './ownTree.ts'

/** Makes `invocations/<id>` and fails if it is there: an id is used once. */
export async function ensureInvocationDir(layout: Layout, repoId: RepoId, id: DispatchId): Promise<void> {
  if (await makeNewDir(layout.invocation(repoId, id))) return
  throw new OrangeryError('workspace.invocation_exists', `invocation ${id}: it is there already`, {
    kind: 'cannot_create',
    hint: 'Try again; a new id is made each time.',
  })
}

/** Makes a folder exclusively, and its parents where they are missing; false if it was there. */
export async function makeNewDir(path: string): Promise<boolean> {
  for (;;) {
    try {
      // One small call: a trip to the thread pool takes ten times as long, and an agent waits for it.
      mkdirSync(path, { mode: 0o700 })
      return true
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EEXIST') return false
      if (code !== 'ENOENT') throw error
      await ensurePrivateDir(dirname(path))
    }
  }
}

/** Atomic. The folder is not synced: after a power loss in these milliseconds the invocation shows as broken. */
export async function writeInvocationMeta(
  layout: Layout,
  repoId: RepoId,
  meta: InvocationMeta,
  synced: 'file' | 'nothing' = 'file',
): Promise<void> {
  const path = layout.invocationMeta(repoId, meta.invocation_id)
  await writeFileAtomically(path, `${JSON.stringify(meta, null, 2)}\n`, 0o600, synced)
}

/** The record of an invocation is on the disk, once its folder is synced too; before that nothing runs in it. */
export function syncInvocation(layout: Layout, repoId: RepoId, id: DispatchId): Promise<void> {
  return syncFile(layout.invocationMeta(repoId, id))
}

export async function readInvocationMeta(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
): Promise<InvocationMeta> {
  const path = layout.invocationMeta(repoId, id)
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new OrangeryError(
      'workspace.meta_missing',
      `invocation ${id}: its meta.json cannot be read (${error.code})`,
      {
        kind: 'not_found',
        hint: `Look at ${layout.invocation(repoId, id)}; nothing there was changed.`,
        cause: error,
      },
    )
  })
  const meta = parseMeta(text, id)
  if (await namesOwnSandbox(layout, repoId, meta)) return meta
  throw unreadable(id, `it names a tree that is not its own, ${meta.sandbox_path}`)
}

function parseMeta(text: string, id: DispatchId): InvocationMeta {
  let why: string
  try {
    const parsed = invocationMetaSchema.safeParse(JSON.parse(text))
    if (parsed.success && parsed.data.invocation_id === id) return parsed.data
    why = parsed.success ? `it belongs to ${parsed.data.invocation_id}` : 'fields are missing or wrong'
  } catch {
    why = 'not JSON'
  }
  throw unreadable(id, why)
}

function unreadable(id: DispatchId, why: string): OrangeryError {
  return new OrangeryError(
    'workspace.meta_unreadable',
    `invocation ${id}: its meta.json is broken (${why})`,
    {
      kind: 'input',
      hint: 'It is shown by `agent ls --all` and left as it is.',
    },
  )
}

/** `2026-01-28T12:05:00Z`, as in the seed. */
export function secondsIso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}

/** Reads, changes and replaces `meta.json` as one step, also between processes; unknown fields stay. */
export async function updateInvocation(
  layout: Layout,
  repoId: RepoId,
  id: DispatchId,
  patch: InvocationPatch,
): Promise<void> {
  await using _lock = await createRepoLock(layout).acquire(`meta-${repoId}`)
  const meta = await readInvocationMeta(layout, repoId, id)
  const { status } = patch
  const end = status === undefined ? {} : { ended_at: isTerminal(status) ? secondsIso(Date.now()) : null }
  await writeInvocationMeta(layout, repoId, { ...meta, ...patch, ...end })
}

export function workspaceOf(layout: Layout, repoId: RepoId, meta: InvocationMeta): Workspace {
  const id = meta.continues ?? meta.invocation_id
  return {
    id,
    repoId,
    strategy: meta.strategy,
    driver: meta.driver,
    dir: layout.sandbox(repoId, id),
    roots: meta.roots,
    createdAtMs: meta.created_at_ms,
    ...(meta.copied_at_ms === undefined ? {} : { copiedAtMs: meta.copied_at_ms }),
  }
}
