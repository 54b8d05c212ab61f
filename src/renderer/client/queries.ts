import {
  useMutation,
  useQuery,
  useQueryClient,
  type Query,
  type QueryClient,
  type UseQueryResult,
} from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Input, Output, ProcedureName } from '../../shared/api.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { showError } from '../design/toasts.ts'
import { useClient, useConnectionState } from './context.tsx'

/**
 * One that is to be fresh ends with the last who looks at it (as it does once its signal was read): still under way, it
 * would be the answer to who looks next, and be from before.
 */
export const asking =
  <T>(call: () => Promise<T>, fresh: boolean) =>
  (context: { readonly signal: AbortSignal }): Promise<T> => {
    if (fresh) context.signal.throwIfAborted()
    return call()
  }

/** What the engine says; asked again whenever it says that something changed. */
export function useAnswer<K extends ProcedureName>(
  name: K,
  input: Input<K>,
  options: {
    enabled?: boolean
    keep?: boolean
    /** Asked again whenever it comes into view: nothing tells of its changes. */
    fresh?: boolean
  } = {},
): UseQueryResult<Output<K>, OrangeryError> {
  const client = useClient()
  const connected = useConnectionState().status === 'open'
  return useQuery<Output<K>, OrangeryError>({
    queryKey: [name, input],
    queryFn: asking(() => client.call(name, input), options.fresh ?? false),
    enabled: connected && (options.enabled ?? true),
    ...(options.fresh ? { refetchOnMount: 'always' as const } : {}),
    ...(options.keep ? { placeholderData: (former: Output<K> | undefined) => former } : {}),
  } as Parameters<typeof useQuery<Output<K>, OrangeryError>>[0])
}

/** Something a person does. Failures are shown; what it touched is asked again. */
export function useAct<K extends ProcedureName>(
  name: K,
  options: {
    onDone?: (output: Output<K>, input: Input<K>) => void
    /** True: it was dealt with and need not be shown. */
    onFailed?: (error: OrangeryError) => boolean
    quiet?: boolean
  } = {},
) {
  const client = useClient()
  const queries = useQueryClient()
  return useMutation<Output<K>, OrangeryError, Input<K>>({
    mutationKey: [name],
    mutationFn: (input) => client.call(name, input),
    onSuccess: (output, input) => options.onDone?.(output, input),
    onError: (error) => {
      if (options.onFailed?.(error) !== true && !options.quiet) showError(error)
    },
    onSettled: (_output, _error, input) => {
      const id = (input as { id?: string } | undefined)?.id
      for (const name of [...aboutAll, ...aboutHost]) void queries.invalidateQueries({ queryKey: [name] })
      if (id !== undefined) void invalidateDispatch(queries, id)
    },
  })
}

// A later turn shows the changeset of the first, which is told of by another id than its own.
const aboutAll = ['dispatch.list', 'dispatch.get', 'boundary.inbox', 'landing.list'] as const
/** What no change of a dispatch tells of, but an act may have changed. */
const aboutHost = [
  'boundary.approvals',
  'disk.use',
  'worktree.list',
  'agent.list',
  'archive.list',
  'workspace.orphans',
  'config.show',
  'config.question',
] as const
const aboutOne = [
  'changeset.get',
  'changeset.diff',
  'changeset.conflicts',
  'boundary.show',
  'agent.get',
] as const

export async function invalidateDispatch(queries: QueryClient, id: string): Promise<void> {
  const predicate = ({ queryKey: [name, input] }: Query) =>
    aboutOne.includes(name as (typeof aboutOne)[number]) && (input as { id?: string }).id === id
  // An answer still under way to one that nobody looks at just now is from before, and would pass for the new one.
  await queries.cancelQueries({ predicate, type: 'inactive' })
  await queries.invalidateQueries({ predicate })
}

/** Follows the engine's word on what changed, for as long as the window is connected. */
export function useChanges(): void {
  const client = useClient()
  const queries = useQueryClient()
  const connected = useConnectionState().status === 'open'
  useEffect(() => {
    if (!connected) return undefined
    const abort = new AbortController()
    // Whatever was missed while there was no connection.
    void queries.invalidateQueries()
    void (async () => {
      try {
        for await (const { ids } of client.open('changes', {}, abort.signal)) {
          for (const name of aboutAll) void queries.invalidateQueries({ queryKey: [name] })
          for (const id of ids) void invalidateDispatch(queries, id)
        }
      } catch (error) {
        if (!(error instanceof OrangeryError) || error.code !== 'wire.lost') showError(error)
      }
    })()
    return () => abort.abort()
  }, [client, connected, queries])
}
