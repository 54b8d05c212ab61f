import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import { asking, invalidateDispatch } from './queries.ts'

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

test('a fresh answer is from after one looked, also where one left while the last was under way', async () => {
  const queries = new QueryClient({ defaultOptions: { queries: { networkMode: 'always' } } })
  const answers: PromiseWithResolvers<string>[] = []
  const look = (fresh: boolean) => {
    const call = () => {
      const answer = Promise.withResolvers<string>()
      answers.push(answer)
      return answer.promise
    }
    const queryKey = ['config.question', { fresh }]
    const observer = new QueryObserver(queries, {
      queryKey,
      queryFn: asking(call, fresh),
      refetchOnMount: 'always',
    })
    return { leave: observer.subscribe(() => {}), said: () => observer.getCurrentResult().data }
  }
  look(true).leave()
  const again = look(true)
  await expect.poll(() => answers.length).toBe(2)
  answers[0]?.resolve('old')
  answers[1]?.resolve('new')
  await expect.poll(() => again.said()).toBe('new')
  again.leave()
  // The control: else who looks next is given what was under way.
  look(false).leave()
  look(false)
  await Promise.resolve()
  expect(answers.length).toBe(3)
  queries.clear()
})
