import { beforeEach, expect, test } from 'vitest'
import { landedToast, showToast, useToasts } from './toasts.ts'

const titles = () => useToasts.getState().toasts.map(({ title }) => title)
beforeEach(() => useToasts.setState({ toasts: [] }))

test('what is said of a landing takes the place of what was said of it before, whose undo would take back another one', () => {
  showToast({ tone: 'good', title: 'Applied 1 file', detail: '2 stayed', about: landedToast('a') })
  showToast({ tone: 'good', title: 'Applied 3 files', about: landedToast('b') })
  showToast({ tone: 'good', title: 'Applied 1 file', detail: '1 stayed', about: landedToast('a') })
  expect(titles()).toEqual(['Applied 3 files', 'Applied 1 file'])
})

test('the same words about two changesets are said twice, and about nothing in particular once', () => {
  for (const about of [landedToast('a'), landedToast('b')])
    showToast({ tone: 'good', title: 'Applied 1 file', about })
  for (let times = 0; times < 2; times++) showToast({ tone: 'bad', title: 'No room' })
  expect(titles()).toEqual(['Applied 1 file', 'Applied 1 file', 'No room'])
})
