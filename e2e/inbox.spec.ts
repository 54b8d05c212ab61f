import type { Page } from '@playwright/test'
import type { BoundaryRequest } from '../src/shared/escalation.ts'
import { expect, test, type DemoHouse } from './demoHouse.ts'

/** Longer than what counts as seen. */
const look = (page: Page) => page.waitForTimeout(400)

type Answering = { readonly answers: string[]; release(): void; take(id: string): void }

/** The demo with that many questions, and with what is answered to them; `slow`: no answer arrives until released. */
async function withQuestions(demo: DemoHouse, many: number, slow = false): Promise<Answering> {
  const [first] = await demo.handlers['boundary.inbox']({}, { by: 'test' })
  if (first === undefined) throw new Error('the demo has no question')
  const open: BoundaryRequest[] = Array.from({ length: many }, (_, at) => ({
    ...first,
    id: `r${at}`,
    to: at === 3 ? 'full' : 'network',
    hosts: at === 3 ? [] : [`h${at}.test:443`],
    source: 'agent',
    why: `question ${at}`,
  }))
  const answers: string[] = []
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const take = (id: string) => {
    open.splice(0, open.length, ...open.filter((request) => request.id !== id))
    demo.touch(first.dispatch)
  }
  const handlers: Partial<typeof demo.handlers> = {
    'boundary.inbox': async () => [...open],
    'boundary.approve': async ({ request = '', scope }) => {
      answers.push(`${request} ${scope}`)
      if (slow) await released
      take(request)
      return []
    },
  }
  Object.assign(demo.handlers, handlers)
  await demo.go('#/inbox')
  await demo.page.reload()
  await expect(demo.page.getByRole('article')).toHaveCount(many)
  await look(demo.page)
  return { answers, release, take }
}

/** The card that the keys mean, and whether a person sees all of it: in its pane, and under nothing. */
const currentCard = (page: Page) =>
  page.evaluate<string>(`(() => {
    const card = document.querySelector('article[aria-current=true]')
    const { left, top, right, bottom } = card.getBoundingClientRect()
    const isWhole = [[left + 4, top + 4], [right - 4, top + 4], [left + 4, bottom - 4], [right - 4, bottom - 4]]
      .every(([x, y]) => card.contains(document.elementFromPoint(x, y)))
    return card.dataset.request + (isWhole ? ' in sight' : ' out of sight')
  })()`)

const scrollTo = (page: Page, top: number) =>
  page.evaluate(`document.querySelector('main article').closest('.overflow-y-auto').scrollTo(0, ${top})`)

for (const [width, height] of [
  [1280, 800],
  [800, 600],
] as const) {
  test(`the card that the keys mean is in sight, also when those before it go, at ${width} by ${height}`, async ({
    demo,
  }) => {
    const { page } = demo
    await page.setViewportSize({ width, height })
    const { take } = await withQuestions(demo, 8)
    for (const at of [1, 2, 3, 4, 5, 6, 7, 7]) {
      await page.keyboard.press('j')
      expect(await currentCard(page)).toBe(`r${at} in sight`)
    }
    for (const at of [6, 5, 4]) {
      await page.keyboard.press('k')
      expect(await currentCard(page)).toBe(`r${at} in sight`)
    }
    for (const id of ['r0', 'r1', 'r4', 'r5']) {
      take(id)
      await expect(page.locator(`[data-request=${id}]`)).toHaveCount(0)
      expect(await currentCard(page)).toMatch(/ in sight$/)
    }
  })
}

test('a key answers nothing that is out of sight: it brings the card there, and the next one answers', async ({
  demo,
}) => {
  const { page } = demo
  await page.setViewportSize({ width: 800, height: 600 })
  const { answers } = await withQuestions(demo, 8)
  for (let at = 0; at < 3; at++) await page.keyboard.press('j')
  await look(page)
  await scrollTo(page, 0)
  await expect.poll(() => currentCard(page)).toBe('r3 out of sight')
  for (const key of ['a', 't', 's', 'u', 'x']) {
    await page.keyboard.press(key)
    expect(await currentCard(page)).toBe('r3 in sight')
    await expect(page.getByRole('textbox', { name: 'Message to the agent' })).toBeHidden()
    await scrollTo(page, 0)
    await expect.poll(() => currentCard(page)).toBe('r3 out of sight')
  }
  expect(answers).toEqual([])
  await page.keyboard.press('a')
  await look(page)
  await page.keyboard.press('a')
  await expect.poll(() => answers).toEqual(['r3 once'])
})

test('a list that grows while a person reads elsewhere in it stays where it is', async ({ demo }) => {
  const { page } = demo
  await page.setViewportSize({ width: 800, height: 600 })
  const { take } = await withQuestions(demo, 8)
  await scrollTo(page, 500)
  await expect.poll(() => currentCard(page)).toBe('r0 out of sight')
  take('r7')
  await expect(page.getByRole('article')).toHaveCount(7)
  expect(await currentCard(page)).toBe('r0 out of sight')
})

test('a card that a key has just brought into sight is not answered by the next key before anybody has seen it', async ({
  demo,
}) => {
  const { page } = demo
  await page.setViewportSize({ width: 800, height: 600 })
  const { answers } = await withQuestions(demo, 8)
  const press = (keys: string) =>
    page.evaluate(`(async () => {
      for (const key of '${keys}') {
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))
        await new Promise((resolve) => setTimeout(resolve))
      }
    })()`)
  await press('jjja')
  expect(await currentCard(page)).toBe('r3 in sight')
  await look(page)
  expect(answers).toEqual([])
  // Who sees the next one already may go on as fast as he likes.
  await page.setViewportSize({ width: 1280, height: 1200 })
  await look(page)
  await press('ja')
  await expect.poll(() => answers).toEqual(['r4 once'])
})

test('a key that is pressed again while its answer is on its way does nothing, and no failure is told', async ({
  demo,
}) => {
  const { page } = demo
  const { answers, release } = await withQuestions(demo, 3, true)
  for (const key of ['a', 'a', 't', 'x']) await page.keyboard.press(key)
  const card = page.locator('[data-request=r0]')
  await expect(card.getByRole('button', { name: 'Allow once' })).toBeDisabled()
  await expect(page.getByRole('textbox', { name: 'Message to the agent' })).toBeHidden()
  release()
  await expect(card).toHaveCount(0)
  await expect(page.getByText('Allowed once', { exact: true })).toBeVisible()
  expect(answers).toEqual(['r0 once'])
})

test('what is said in passing does not lie over the card that the keys mean', async ({ demo }) => {
  const { page } = demo
  await page.setViewportSize({ width: 800, height: 600 })
  const { answers } = await withQuestions(demo, 8)
  for (const [at, key] of ['a', 't', 's', 'u'].entries()) {
    await look(page)
    await page.keyboard.press(key)
    await expect.poll(() => answers.length).toBe(at + 1)
    await expect(page.getByRole('article')).toHaveCount(7 - at)
    // The last answer is what is news.
    await expect(page.getByText(/^Allowed/)).toHaveCount(1)
    expect(await currentCard(page)).toMatch(/ in sight$/)
  }
  for (let at = 0; at < 3; at++) await page.keyboard.press('j')
  expect(await currentCard(page)).toBe('r7 in sight')
})
