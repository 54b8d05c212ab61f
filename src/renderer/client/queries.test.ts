import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import { invalidateDispatch } from './queries.ts'

test('an answer that was under way when something changed does not pass for the new one, also while nobody looks', async () => {
  const queries = new QueryClient({
    defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY, networkMode: 'always' } },
  })
  const queryKey = ['changeset.get', { id: 'd1' }]
  const answers: PromiseWithResolvers<string>[] = []
  const queryFn = () => {
    const answer = Promise.withResolvers<string>()
    answers.push(answer)
    return answer.promise
  }
  const observer = new QueryObserver(queries, { queryKey, queryFn, enabled: true })
  const leave = observer.subscribe(() => {})
  // The agent goes on, and the page stops asking while the answer is under way; then its turn ends.
  observer.setOptions({ queryKey, queryFn, enabled: false })
  const invalidated = invalidateDispatch(queries, 'd1')
  answers[0]?.resolve('old')
  await invalidated
  observer.setOptions({ queryKey, queryFn, enabled: true })
  await expect.poll(() => answers.length).toBe(2)
  answers[1]?.resolve('new')
  await expect.poll(() => observer.getCurrentResult().data).toBe('new')
  leave()
  queries.clear()
})
