import { expect, test } from './house.ts'

test('a running agent is widened and narrowed from the window, without a restart', async ({ house }) => {
  const { page } = house
  const script =
    'until touch made 2>/dev/null; do sleep 0.1; done; echo wrote; while touch made 2>/dev/null; do sleep 0.1; done; echo closed; sleep 300'
  await house.dispatch(script, async (dialog) => {
    await dialog.getByRole('button', { name: /^More/ }).click()
    await dialog.getByRole('radio', { name: 'Read only' }).click()
  })
  const terminal = page.getByTestId('terminal')
  const badge = page.getByRole('button', { name: /^Boundary/ })
  await expect(badge).toHaveText('Read only')
  await expect(terminal).not.toContainText('wrote')

  await badge.click()
  await page.getByRole('menuitem', { name: 'Read, write' }).click()
  await page
    .getByRole('dialog', { name: 'Widen to Read, write' })
    .getByRole('button', { name: 'Widen' })
    .click()
  await expect(terminal).toContainText('wrote')
  await expect(badge).toHaveText('Read, write')

  await badge.click()
  await page.getByRole('menuitem', { name: 'Read only' }).click()
  await expect(terminal).toContainText('closed')
  await expect(badge).toHaveText('Read only')

  await page.getByRole('tab', { name: 'Record' }).click()
  await expect(page.getByText('Boundary readonly → readwrite')).toBeVisible()
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await expect(page.getByText('Stopped').first()).toBeVisible()
})
