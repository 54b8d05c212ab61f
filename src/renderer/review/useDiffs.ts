import { useEffect, useMemo, useRef, useState } from 'react'
import type { ChangedFile, Changeset } from '../../shared/changeset.ts'
import { useClient } from '../client/context.tsx'
import { useAnswer } from '../client/queries.ts'
import { showError } from '../design/toasts.ts'
import { keyOf, placeOf, type FileKey } from './model.ts'
import { splitPatch } from './patch.ts'

export type Diffs = {
  /** Undefined: not loaded yet. Null: there is no text to show. */
  patchOf(file: ChangedFile): string | null | undefined
  load(file: ChangedFile): void
  readonly loading: boolean
}

const hasText = (file: ChangedFile) => !file.binary && file.kind !== 'directory' && file.refused === null

/** The text of a changeset: in one answer where it fits, file by file where it does not. */
export function useDiffs(id: string, changeset: Changeset): Diffs {
  const client = useClient()
  const { revision, roots } = changeset
  const whole = useAnswer('changeset.diff', { id })
  const [single, setSingle] = useState<{ revision: string; patches: ReadonlyMap<FileKey, string> }>({
    revision,
    patches: new Map(),
  })
  const asked = useRef(new Set<string>())

  const { data, refetch } = whole
  const read = useMemo(() => {
    if (data === undefined || roots.length > 1) return null
    const patches = splitPatch(data.text)
    // The last patch of a cut answer is cut, too.
    const kept = data.truncated ? patches.slice(0, -1) : patches
    return { revision: data.revision, patches: new Map(kept.map(({ path, text }) => [path, text])) }
  }, [data, roots.length])
  // While the agent goes on, answers run ahead of what is being read: that stays as it is.
  const shown = useRef(read)
  if (read?.revision === revision) shown.current = read
  const together = shown.current?.revision === revision ? shown.current.patches : null

  // One that was given before the last change is asked for again, once for each that differs.
  const differs = data !== undefined && together === null && roots.length === 1
  const difference = differs ? `${revision} ${data.revision}` : null
  useEffect(() => {
    if (difference !== null) void refetch()
  }, [difference, refetch])

  const load = (file: ChangedFile) => {
    const name = `${revision} ${keyOf(file)}`
    if (asked.current.has(name)) return
    asked.current.add(name)
    client.call('changeset.diff', { id, ...placeOf(file) }).then(
      (answer) =>
        setSingle((former) => {
          const patches = new Map(former.revision === answer.revision ? former.patches : [])
          // A link that gave way, or what had another type, goes before what comes in its stead.
          patches.set(keyOf(file), splitPatch(answer.text).at(-1)?.text ?? '')
          return { revision: answer.revision, patches }
        }),
      (error: unknown) => {
        asked.current.delete(name)
        showError(error)
      },
    )
  }

  const patchOf = (file: ChangedFile) => {
    if (!hasText(file)) return null
    const own = single.revision === revision ? single.patches.get(keyOf(file)) : undefined
    return own ?? (file.path_b64 === undefined ? together?.get(file.path) : undefined)
  }

  // With several roots, or not in UTF-8, a path alone does not name a file, so each is asked for.
  const severalRoots = roots.length > 1
  useEffect(() => {
    const unnamed = changeset.files.filter((file) => severalRoots || file.path_b64 !== undefined)
    for (const file of unnamed.slice(0, 200)) if (hasText(file) && !file.ignored) load(file)
    // oxlint-disable-next-line react/exhaustive-deps -- asked once per revision
  }, [severalRoots, revision])

  return { patchOf, load, loading: whole.isLoading }
}
