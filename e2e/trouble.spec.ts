import { expect, test } from './house.ts'

test('a host that goes away is said at once, and the page keeps what it knew', async ({ house }) => {
  const { page } = house
  await house.dispatch('echo still here')
  await expect(page.getByTestId('terminal')).toContainText('still here')
  await house.killHost()
  await expect(page.getByRole('alert')).toContainText('Connection to Orangery lost')
  await expect(page.getByRole('heading', { name: 'echo still here' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Not connected' })).toBeVisible()
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'New dispatch' })
  await dialog.getByRole('textbox', { name: 'Command', exact: true }).fill('true')
  await expect(dialog.getByText('Not connected. What you filled in stays here')).toBeVisible()
  await expect(dialog.getByRole('button', { name: /^Start/ })).toBeDisabled()
})

test('a folder that is not there is said before the start', async ({ house }) => {
  const { page, project } = house
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'New dispatch' })
  await dialog.getByRole('combobox', { name: 'Folder' }).fill(`${project}/nowhere`)
  await dialog.getByRole('textbox', { name: 'Command', exact: true }).fill('true')
  await expect(dialog.getByRole('alert')).toContainText('It does not exist.')
  await expect(dialog.getByRole('combobox', { name: 'Folder' })).toHaveAttribute('aria-invalid', 'true')
  await expect(dialog.getByRole('button', { name: /^Start/ })).toBeDisabled()
})

test('folders are completed from the disk', async ({ house }) => {
  const { page, project } = house
  await house.write({ 'packages/core/index.ts': '', 'packages/web/index.ts': '' })
  await page.keyboard.press('n')
  const field = page.getByRole('combobox', { name: 'Folder' })
  await field.fill(`${project}/pack`)
  await page.getByRole('option', { name: 'packages' }).click()
  await expect(page.getByRole('option')).toHaveText(['core', 'web'])
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Tab')
  await expect(field).toHaveValue(`${project}/packages/web/`)
})

test('a file of 20,000 changed lines does not freeze the window', async ({ house }) => {
  const { page } = house
  await house.dispatch("seq 1 20000 | sed 's/^/const line = /' > big.ts")
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible({ timeout: 30_000 })
  await page.getByRole('tab', { name: /Changes/ }).click()
  await page.getByRole('button', { name: 'Show 20000 changed lines' }).click()
  await expect(page.locator('.diff-view').getByText('const line = 1', { exact: true }).first()).toBeVisible()
  // The window answers while the lines are coloured elsewhere, and draws only those in view.
  await page.keyboard.press('?')
  await expect(page.getByRole('dialog', { name: 'Keys' })).toBeVisible({ timeout: 3_000 })
  await page.keyboard.press('Escape')
  const drawn = await page.evaluate<number>(
    `[...document.querySelectorAll('diffs-container')]
      .map((host) => host.shadowRoot.querySelectorAll('[data-line]').length)
      .reduce((sum, count) => sum + count, 0)`,
  )
  expect(drawn).toBeGreaterThan(10)
  expect(drawn).toBeLessThan(1_000)
})

test('an agent that floods its output is followed, read about and stopped', async ({ house }) => {
  const { page } = house
  await house.dispatch('echo first line; yes orangery orangery orangery orangery')
  await expect(page.getByTestId('terminal')).toContainText('orangery')
  await page.getByRole('tab', { name: 'Record' }).click()
  await expect(page.getByText('Agent started')).toBeVisible()
  await page.getByRole('tab', { name: 'Output' }).click()
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await expect(page.getByText('Stopped').first()).toBeVisible({ timeout: 30_000 })
})

test('of several folders one is only read, chosen by keyboard, and the plan says so before the start', async ({
  house,
}) => {
  const { page, project } = house
  await house.write({ 'shop/a.txt': '', 'docs/b.txt': '' })
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'New dispatch' })
  await dialog.getByRole('combobox', { name: 'Folder' }).fill(`${project}/shop`)
  await expect(dialog.getByRole('combobox', { name: /what the agent may do/ })).toHaveCount(0)
  await dialog.getByRole('textbox', { name: 'Command', exact: true }).fill('true')
  await dialog.getByRole('button', { name: 'Another folder' }).click()
  const second = dialog.getByRole('combobox', { name: 'Folder 2', exact: true })
  await second.fill(`${project}/docs`)
  await second.press('Tab')
  const mode = dialog.getByRole('combobox', { name: 'Folder 2: what the agent may do' })
  await expect(mode).toBeFocused()
  await page.keyboard.press('ArrowDown')
  await expect(mode).toHaveValue('ro')
  await expect(dialog.getByLabel('The same in a terminal')).toContainText(`--root-mode ${project}/docs=ro`)
  await expect(dialog.getByText('Ready to start')).toBeVisible()
  await dialog.getByText(/^The sandbox it would get/).click()
  await expect(dialog).toContainText(`${project}/docs`)
})
