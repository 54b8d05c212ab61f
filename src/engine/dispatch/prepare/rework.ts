import type { Output } from '../../../shared/api.ts'
import { spawnInputSchema } from '../../../shared/api.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { findCard } from '../../agents/index.ts'
import type { InvocationMeta } from '../../base/invocation.ts'
import { readInvocationMeta } from '../../workspace/index.ts'
import type { Parts } from '../parts.ts'
import { prepare } from './prepare.ts'
import { expandAgain } from './presets.ts'
import { startJob } from './startJob.ts'
import type { Supervisors } from '../supervise/supervisors.ts'

/**
 * Sends a changeset back to its agent: one more dispatch in the same workspace and home, asked as the first one
 * was, under what the policy says now, with the comments of the review as its prompt.
 */
export async function rework(
  parts: Parts,
  supervisors: Supervisors,
  id: DispatchId,
  { comment, env }: { readonly comment: string; readonly env: Readonly<Record<string, string>> },
  by: string,
): Promise<Output<'changeset.rework'>> {
  const { changesets, store } = parts
  const { state, turn, invocation } = await sendable(parts, id)
  const prompt = await changesets.reworkPrompt(id, comment)
  if (prompt === null) throw nothingSaid(id)
  const first = store.dispatches.get(id)
  const card = await findCard(parts.configDir, first.agent)
  const job = await prepare(
    parts,
    spawnInputSchema.parse({
      agent: first.agent,
      command: card.command.length === 0 ? first.command : [],
      roots: first.roots,
      prompt,
      // For agents whose command has no place for a prompt.
      env: { ...env, ORANGERY_PROMPT: prompt, ORANGERY_TURN: String(turn + 1) },
      ...(first.name === null ? {} : { name: first.name }),
      ...(first.role === null ? {} : { role: first.role }),
      ...(first.phase === null ? {} : { phase: first.phase }),
      ...(first.parent_id === null ? {} : { parent: first.parent_id }),
      ...(first.sandbox === null ? {} : { sandbox: first.sandbox }),
      ...(first.sandboxSpecText === null ? {} : { sandbox_spec: first.sandboxSpecText }),
    }),
    invocation,
  )
  let isOpen = false
  try {
    await startJob(parts, supervisors, job, async () => {
      store.landings.remove(id)
      if (state === 'review') await changesets.reject(id, comment, by)
      await changesets.reopen(id, job.id, by)
      isOpen = true
    })
  } catch (error) {
    if (isOpen) changesets.endTurn(id, 'the next turn did not start')
    throw error
  }
  return { id, state: 'active', dispatch: job.id, turn: turn + 1 }
}

/** What the next turn can reach by presets, shown to whoever sends it back: they mean what they mean now. */
export async function reworkOutputs(
  parts: Parts,
  id: DispatchId,
): Promise<Output<'changeset.rework_outputs'>> {
  const { invocation } = await sendable(parts, id)
  return expandAgain(parts, parts.store.dispatches.get(id), invocation)
}

async function sendable(parts: Parts, id: DispatchId) {
  const { state, turn = 1 } = await parts.changesets.get(id)
  if (state !== 'review' && state !== 'rejected') throw notOpen(id, state)
  return { state, turn, invocation: await standing(parts, id) }
}

/** The workspace must still be there: what was landed, discarded or archived has none to go on in. */
async function standing(parts: Parts, id: DispatchId): Promise<InvocationMeta> {
  const repoId = parts.store.changesets.find(id)?.repoId
  const meta = repoId === undefined ? null : await readInvocationMeta(parts.layout, repoId, id)
  if (meta !== null && meta.outcome === null) return meta
  throw new OrangeryError(
    'changeset.no_workspace',
    `changeset ${id}: its workspace was ${meta?.outcome ?? 'never made'}`,
    { kind: 'busy', hint: 'Start a new dispatch, and give it the comments as its prompt.' },
  )
}

function notOpen(id: DispatchId, state: string): OrangeryError {
  const hint =
    state === 'active'
      ? 'Its agent still works on it: wait for it or stop it.'
      : 'Only what is in review goes back.'
  return new OrangeryError('changeset.wrong_state', `changeset ${id} is ${state}: it cannot be sent back`, {
    kind: 'busy',
    hint,
  })
}

function nothingSaid(id: DispatchId): OrangeryError {
  return new OrangeryError('changeset.nothing_said', `changeset ${id}: nothing was said about it`, {
    kind: 'input',
    hint: 'Say what is wrong with --comment, or with `changeset decide … rework --comment`.',
  })
}
