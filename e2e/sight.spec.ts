import { expect, test } from './demoHouse.ts'
import { colouredWords, cutButtons, faintTexts, namelessControls } from './sight.ts'

const places = async (idOf: (name: string) => Promise<string>) => {
  const coupons = await idOf('Make coupons')
  return [
    '#/',
    '#/inbox',
    '#/computer',
    '#/computer/settings',
    '#/computer/storage',
    '#/computer/approvals',
    '#/computer/workspaces',
    `#/dispatch/${coupons}/changes`,
    `#/dispatch/${coupons}/record`,
    `#/dispatch/${await idOf('Port the importer')}/output`,
    `#/dispatch/${await idOf('fix')}/output`,
  ]
}

for (const theme of ['light', 'dark'] as const) {
  test(`every text can be read and every control has a name, in ${theme}`, async ({ demo }) => {
    const { page } = demo
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
    for (const place of await places(demo.idOf)) {
      await demo.go(place)
      await expect(page.getByRole('main').getByRole('heading').first()).toBeVisible()
      if (place.endsWith('/changes')) {
        await page.getByRole('option', { name: /coupons\.ts/ }).click()
        await expect.poll(() => colouredWords(page)).toBeGreaterThan(20)
      }
      expect(await namelessControls(page), place).toEqual([])
      expect(await faintTexts(page), place).toEqual([])
    }
    await page.keyboard.press('n')
    await expect(page.getByRole('dialog').getByRole('radio', { name: 'Virtual machine' })).toBeVisible()
    expect(await faintTexts(page), 'the form').toEqual([])
    await page.keyboard.press('Escape')
    // The positive control: a text that cannot be read and a button without a name are found.
    await page.evaluate(
      `document.body.insertAdjacentHTML('beforeend', '<p style="position:fixed;top:0;color:#999;background:#aaa">unreadable</p><button style="position:fixed;top:0"></button>')`,
    )
    expect((await faintTexts(page)).join()).toContain('unreadable')
    expect(await namelessControls(page)).toHaveLength(1)
  })
}

test('whoever goes by keyboard sees where they are', async ({ demo }) => {
  const { page } = demo
  await page.keyboard.press('Tab')
  for (let step = 0; step < 6; step++) {
    const outline = await page.evaluate<string>(`(() => {
      const at = document.activeElement
      const field = at.closest('label') ?? at
      const seen = getComputedStyle(at).outlineStyle !== 'none' && parseFloat(getComputedStyle(at).outlineWidth) > 0
      return seen || getComputedStyle(field).boxShadow !== 'none' ? 'seen' : at.outerHTML.slice(0, 120)
    })()`)
    expect(outline).toBe('seen')
    await page.keyboard.press('Tab')
  }
})

test('in a narrow window the list and the page take turns, and nothing is cut off', async ({ demo }) => {
  const { page } = demo
  await page.setViewportSize({ width: 420, height: 800 })
  const list = page.getByRole('navigation', { name: 'Dispatches' })
  await expect(page.getByRole('main')).toBeHidden()
  await list.getByRole('button', { name: /Make coupons work/ }).click()
  await expect(list).toBeHidden()
  await expect(page.locator('[data-hunk]').first()).toBeVisible()

  const files = page.getByRole('listbox', { name: 'Changed files' })
  await expect(files).toBeHidden()
  await page.getByRole('button', { name: 'Files' }).click()
  await files.getByRole('option', { name: /coupons\.ts/ }).click()
  await expect(files).toBeHidden()
  await expect(page.locator('[data-file-header="src/coupons.ts"]')).toBeVisible()

  await page.getByRole('button', { name: 'What to show' }).click()
  await page.getByRole('menuitem', { name: 'This turn' }).click()
  await expect(page.getByRole('button', { name: 'What to show' })).toHaveText('This turn')
  for (const place of ['record', 'output'])
    await page.getByRole('tab', { name: place === 'record' ? 'Record' : 'Output' }).click()
  await page.getByRole('button', { name: 'Apply…' }).click()
  await expect(page.getByRole('dialog').getByRole('button', { name: /^Apply 7/ })).toBeInViewport()
  await page.keyboard.press('Escape')
  const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  expect(overflow).toBeLessThanOrEqual(0)
  await page.getByRole('button', { name: 'Dispatches' }).click()
  await expect(list).toBeVisible()
})

test('a long path gives way with an ellipsis, and its ending stays', async ({ demo }) => {
  const { page } = demo
  await page.setViewportSize({ width: 800, height: 600 })
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  const row = page.getByRole('option', { name: /src\/legacy\/discount\.js/ })
  await expect(row).toBeVisible()
  const boxes = await page.evaluate<{ text: string; cut: boolean; width: number }[]>(`
    [...document.querySelectorAll('[data-file="src/legacy/discount.js"] [title] > [aria-hidden]')].map((box) => ({
      text: box.textContent, cut: box.scrollWidth > box.clientWidth, width: box.clientWidth }))`)
  expect(boxes.map((box) => box.text)).toEqual(['src/legacy/', 'discount', '.js'])
  expect(boxes.at(-1)?.cut).toBe(false)
  for (const box of boxes.filter((each) => each.cut)) expect(box.width).toBeGreaterThan(12)
})

test('whatever the width of the window, every button of a review lies wholly within its pane', async ({
  demo,
}) => {
  const { page } = demo
  const get = demo.handlers['changeset.get']
  const worse: Partial<typeof demo.handlers> = {
    'changeset.get': async (input, caller) => {
      const changeset = await get(input, caller)
      const files = changeset.files.map((file, at) => ({
        ...file,
        reopened: at < 2,
        // A name of one word, a long one, and so many lines that the diff is shown only when asked for.
        ...(at % 2 === 1 ? { insertions: 50_000, deletions: 12_345 } : {}),
      }))
      return { ...changeset, files, insertions: 150_005, deletions: 40_000 }
    },
  }
  Object.assign(demo.handlers, worse)
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  await expect(page.locator('[data-hunk]').first()).toBeVisible()
  const shows = page.getByRole('button', { name: 'Show 62345 changed lines' })
  await expect(shows.first()).toBeVisible()
  for (const layout of ['Unified', 'Side by side']) {
    await page.getByRole('radio', { name: layout }).click()
    for (const width of [640, 800, 960, 1024, 1100, 1600]) {
      await page.setViewportSize({ width, height: 768 })
      await expect.poll(() => cutButtons(page), { message: `${layout} at ${width}` }).toEqual([])
    }
  }
  // The positive control: a button that has left the pane is found.
  await page.evaluate(
    `document.querySelector('[data-file-header]').insertAdjacentHTML('beforeend', '<button style="position:fixed;left:99vw;width:99px">x</button>')`,
  )
  await expect.poll(() => cutButtons(page)).toHaveLength(1)
})
