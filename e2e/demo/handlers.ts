import { api, type Handlers } from '../../src/shared/api.ts'
import type { Changeset, ChangedFile } from '../../src/shared/changeset.ts'
import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import { OrangeryError } from '../../src/shared/errors.ts'
import { boundaryDemo } from './boundary.ts'
import { capture } from './capture.ts'
import { hostDemo } from './host.ts'
import { eventsOf, outputOf } from './logs.ts'
import { base, hostile, result } from './project.ts'
import { at, makeRows, root, row } from './rows.ts'
import { storageDemo } from './storage.ts'

/**
 * An engine made of canned answers, for screens a real one reaches only with agents, engines and hours: several
 * levels, requests, violations, hostile names. Everything that acts is tested against the real engine.
 */
export type Demo = { readonly handlers: Handlers; touch(id: string): void }

export async function makeDemo(dataDir: string): Promise<Demo> {
  const shop = await capture(root, base, result)
  const traps = await capture('/home/ada/traps', {}, hostile)
  const ignored: ChangedFile[] = Array.from({ length: 40 }, (_, n) => ({
    ...shop.files[0]!,
    path: `node_modules/left-pad-${n}/index.js`,
    change: 'added',
    ignored: true,
    protected: false,
    hunks: [],
  }))
  const changesets = new Map<string, Changeset>()
  const texts = new Map<string, string>()

  const { rows, review, trapped } = makeRows()

  const put = (
    owner: DispatchDetail,
    state: Changeset['state'],
    captured: Awaited<ReturnType<typeof capture>>,
    extra: ChangedFile[] = [],
  ) => {
    const files = [...captured.files, ...extra]
    const insertions = captured.files.reduce((sum, file) => sum + file.insertions, 0)
    const deletions = captured.files.reduce((sum, file) => sum + file.deletions, 0)
    changesets.set(owner.id, {
      id: owner.id,
      state,
      roots: [...owner.roots],
      revision: captured.revision,
      files,
      insertions,
      deletions,
      dropped:
        extra.length === 0
          ? []
          : [{ root, path: '.git/hooks/pre-commit', why: 'changes under .git never land' }],
      transitions: [{ at: owner.created_at, from: null, to: state, by: 'engine', why: 'the agent ended' }],
    })
    texts.set(owner.id, captured.text)
    owner.changeset = { id: owner.id, state, files: files.length, insertions, deletions }
  }
  put(review, 'review', shop, ignored)
  put(trapped, 'review', traps)
  const applied = rows.find((each) => each.name === 'Update the snapshots')
  if (applied) put(applied, 'applied', shop)
  const stopped = rows.find((each) => each.name === 'Rewrite the parser')
  if (stopped) put(stopped, 'abandoned', shop)

  const find = (id: string) => {
    const found = rows.find((each) => each.id.startsWith(id))
    if (found === undefined)
      throw new OrangeryError('dispatch.not_found', `${id}: there is no such dispatch`, { kind: 'not_found' })
    return found
  }
  const changesetOf = (id: string) => {
    const found = changesets.get(find(id).id)
    if (found === undefined)
      throw new OrangeryError('changeset.not_found', `${id}: it changed nothing`, { kind: 'not_found' })
    return found
  }
  const listeners = new Set<(id: string) => void>()
  const touch = (id: string) => listeners.forEach((listener) => listener(id))
  const end = (id: string, state: Changeset['state']) => {
    const changeset = { ...changesetOf(id), state }
    changesets.set(changeset.id, changeset)
    const owner = find(id)
    if (owner.changeset) owner.changeset = { ...owner.changeset, state }
    touch(owner.id)
    return changeset
  }
  const forever = (signal: AbortSignal) =>
    new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))

  const canned: Partial<Handlers> = {
    ...hostDemo(dataDir),
    ...storageDemo(review.id),
    'dispatch.verify': async () => ({ ok: true, events: 0, problem: null }),
    'dispatch.preflight': async ({ roots, sandbox_spec }) => ({
      ok: !(sandbox_spec ?? '').includes('"vm"'),
      checks: [
        { name: 'roots', ok: true, detail: roots.join(', '), fix: null },
        {
          name: 'level 3',
          ok: !(sandbox_spec ?? '').includes('"vm"'),
          detail: 'no runtime that gives a virtual machine was found',
          fix: 'apt install qemu-system-x86, or choose another level.',
        },
        { name: 'disk', ok: true, detail: '84 GB free', fix: null },
      ],
    }),
    'dispatch.spawn': async ({ command, roots, name, agent, prompt }) => {
      const spawned = row({
        minutes: 0,
        status: 'running',
        command,
        roots,
        name: name ?? null,
        agent,
        prompt: prompt ?? null,
      })
      rows.unshift(spawned)
      touch(spawned.id)
      return { id: spawned.id }
    },
    'dispatch.list': async ({ limit }) => rows.slice(0, limit),
    'dispatch.get': async ({ id }) => find(id),
    'dispatch.kill': async ({ id }) => {
      const found = find(id)
      Object.assign(found, { status: 'cancelled', ended_at: at(0) })
      touch(found.id)
      return { id: found.id }
    },
    'dispatch.input': async () => ({}),
    'dispatch.resize': async () => ({}),
    'dispatch.events': async function* ({ id }, signal) {
      yield* eventsOf(find(id))
      await forever(signal)
    },
    'dispatch.output': async function* ({ id, from }, signal) {
      const bytes = Buffer.from(outputOf(find(id)))
      if (from < bytes.length) yield { offset: from, data: bytes.subarray(from).toString('base64') }
      await forever(signal)
    },
    'changeset.list': async () => rows.flatMap((each) => (each.changeset === null ? [] : [each.changeset])),
    'changeset.get': async ({ id }) => changesetOf(id),
    'changeset.diff': async ({ id }) => ({
      revision: changesetOf(id).revision,
      text: texts.get(find(id).id) ?? '',
      truncated: false,
    }),
    'changeset.decide': async ({ id, path, hunk, verdict }) => {
      const former = changesetOf(id)
      const files = former.files.map((file) => {
        if (file.path !== path) return file
        const hunks = file.hunks.map((each) =>
          hunk === undefined || each.id === hunk ? { ...each, decision: verdict } : each,
        )
        return { ...file, hunks, decision: hunk === undefined ? verdict : file.decision }
      })
      const next = { ...former, files }
      changesets.set(former.id, next)
      return next
    },
    'changeset.apply': async ({ id }) => {
      const changeset = end(id, 'applied')
      const applied = changeset.files.filter((file) => !file.protected && !file.ignored)
      return {
        id: changeset.id,
        state: 'applied',
        applied: applied.map(({ root, path }) => ({ root, path })),
        skipped: [],
      }
    },
    'changeset.conflicts': async ({ id }) => ({
      revision: changesetOf(id).revision,
      conflicts: [],
      settled: [],
      merged: [],
      lands: [],
      skipped: [],
    }),
    'changeset.restore': async ({ id }) => ({ id: find(id).id, state: end(id, 'review').state }),
    // A crash had cut it off, and the file was written meanwhile: a person has to say whose it is.
    'changeset.settle': async ({ id }) => {
      const { state, ...rest } = end(id, 'review')
      changesets.set(rest.id, { ...rest, state, stopped: null })
      return { id: rest.id, state }
    },
    'changeset.undo': async ({ id }) => {
      const former = changesetOf(id)
      const [file] = former.files
      if (find(id) === applied && file !== undefined) {
        const stopped = { root: file.root, path: file.path }
        changesets.set(former.id, { ...former, stopped })
        touch(former.id)
        throw new OrangeryError('changeset.neither_old_nor_new', `stopped at ${file.path}`, {
          kind: 'busy',
          details: stopped,
        })
      }
      const changeset = end(id, 'review')
      return {
        id: changeset.id,
        state: 'review',
        applied: changeset.files.map(({ root, path }) => ({ root, path })),
        skipped: [],
      }
    },
    'changeset.reject': async ({ id }) => ({ id: find(id).id, state: end(id, 'rejected').state }),
    'changeset.abandon': async ({ id }) => ({
      id: find(id).id,
      state: end(id, 'abandoned').state,
      commits: 0,
      notes: [],
    }),
    ...boundaryDemo(find, () => rows.filter(({ status }) => status === 'running'), touch),
    changes: async function* (_input, signal) {
      const waiting: string[] = []
      let wake = () => {}
      const listener = (id: string) => {
        waiting.push(id)
        wake()
      }
      listeners.add(listener)
      signal.addEventListener('abort', () => wake())
      try {
        while (!signal.aborted) {
          if (waiting.length > 0) yield { ids: waiting.splice(0) }
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      } finally {
        listeners.delete(listener)
      }
    },
  }
  return { handlers: withTheRest(canned), touch }
}

/** What the demo has no answer for says so, whatever the contract grows to. */
function withTheRest(canned: Partial<Handlers>): Handlers {
  const refuse = (name: string) => async () => {
    throw new OrangeryError('demo.no_answer', `${name}: the demo has no answer to this`, {
      kind: 'not_found',
    })
  }
  const rest = Object.keys(api).map((name) => [name, refuse(name)] as const)
  return { ...(Object.fromEntries(rest) as unknown as Handlers), ...canned }
}
