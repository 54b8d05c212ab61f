import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from './house.ts'

const diff = '.diff-view'

test('from an empty window to a reviewed change on disk, and back', async ({ house }) => {
  const { page, project } = house
  await house.write({ 'greeting.txt': 'hello\nworld\n', 'old.txt': 'old\n' })
  await expect(page.getByRole('heading', { name: 'Run an agent where it can do no harm' })).toBeVisible()

  await house.dispatch(
    "sed -i s/world/orangery/ greeting.txt; echo new > new.txt; rm old.txt; echo 'all done'",
  )
  await expect(page.getByTestId('terminal')).toContainText('all done')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  expect(await readFile(join(project, 'greeting.txt'), 'utf8')).toBe('hello\nworld\n')

  await page.getByRole('tab', { name: /Changes/ }).click()
  await expect(page.getByRole('option')).toHaveCount(3)
  await expect(page.locator(diff).getByText('orangery', { exact: true })).toBeVisible()

  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Apply to your files' })
  await expect(dialog).toContainText(project)
  await dialog.getByRole('button', { name: 'Apply 3 files' }).click()
  await expect(page.getByText('Applied 3 files').first()).toBeVisible()
  expect(await readFile(join(project, 'greeting.txt'), 'utf8')).toBe('hello\norangery\n')
  expect(await readFile(join(project, 'new.txt'), 'utf8')).toBe('new\n')
  expect(existsSync(join(project, 'old.txt'))).toBe(false)

  await page.getByRole('button', { name: 'Undo', exact: true }).first().click()
  await expect(page.getByText(/^Undone/).first()).toBeVisible()
  expect(await readFile(join(project, 'greeting.txt'), 'utf8')).toBe('hello\nworld\n')
  expect(await readFile(join(project, 'old.txt'), 'utf8')).toBe('old\n')
  expect(existsSync(join(project, 'new.txt'))).toBe(false)
})

test('only the approved hunk lands', async ({ house }) => {
  const { page, project } = house
  const lines = Array.from({ length: 40 }, (_, at) => `line ${at + 1}`)
  await house.write({ 'list.txt': `${lines.join('\n')}\n` })
  await house.dispatch("sed -i -e '2s/.*/second/' -e '35s/.*/thirty-fifth/' list.txt")
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  await expect(page.locator('[data-hunk]')).toHaveCount(2)
  await page.keyboard.press('j')
  await page.keyboard.press('a')
  await expect(page.locator('[data-hunk="0"]')).toHaveAttribute('data-decision', 'approve')
  await page.keyboard.press('x')
  await expect(page.locator('[data-hunk="1"]')).toHaveAttribute('data-decision', 'reject')
  await expect(page.getByText('2/2 decided')).toBeVisible()
  await page.keyboard.press('u')
  await expect(page.locator('[data-hunk="1"]')).toHaveAttribute('data-decision', 'open')
  await page.keyboard.press('x')
  await expect(page.locator('[data-hunk="1"]')).toHaveAttribute('data-decision', 'reject')

  await page.getByRole('button', { name: 'Apply…' }).click()
  await page.getByRole('button', { name: 'Apply 1 file' }).click()
  await expect(page.getByText('Applied 1 file').first()).toBeVisible()
  const landed = (await readFile(join(project, 'list.txt'), 'utf8')).split('\n')
  expect([landed[1], landed[34]]).toEqual(['second', 'line 35'])
})

test('abandoned changes leave the folder as it was', async ({ house }) => {
  const { page, project } = house
  await house.write({ 'kept.txt': 'kept\n' })
  await house.dispatch('rm kept.txt')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('button', { name: 'Abandon…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Abandon these changes' })
  await expect(dialog).toContainText('archive for 30 days')
  await dialog.getByRole('button', { name: 'Abandon' }).click()
  await expect(page.getByText('Abandoned').first()).toBeVisible()
  expect(await readFile(join(project, 'kept.txt'), 'utf8')).toBe('kept\n')
})

test('a running command is typed to and stopped', async ({ house }) => {
  const { page } = house
  await house.dispatch("sh -c 'read name; echo hello $name; sleep 300'")
  await expect(page.getByText('Running', { exact: true }).first()).toBeVisible()
  await page.getByTestId('terminal').click()
  await page.keyboard.type('ada\n')
  await expect(page.getByTestId('terminal')).toContainText('hello ada')
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await expect(page.getByText('Stopped').first()).toBeVisible()
})

test('a file both sides changed is settled before anything is written', async ({ house }) => {
  const { page, project } = house
  await house.write({ 'shared.txt': 'one\ntwo\nthree\n', 'edit.txt': 'two\n', 'free.txt': 'free\n' })
  await house.dispatch('sed -i s/two/TWO/ shared.txt edit.txt; echo more >> free.txt')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await house.write({ 'shared.txt': 'one\nzwei\nthree\n', 'edit.txt': 'zwei\n' })
  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Apply to your files' })
  await expect(dialog.getByRole('region', { name: 'Conflicts' })).toContainText('shared.txt')
  const apply = dialog.getByRole('button', { name: /^Apply/ })
  await expect(apply).toBeDisabled()
  expect(await readFile(join(project, 'free.txt'), 'utf8')).toBe('free\n')
  const conflict = (path: string) => dialog.getByRole('listitem').filter({ hasText: path })
  await conflict('shared.txt').getByRole('button', { name: "Take the agent's" }).click()
  await conflict('edit.txt').getByRole('button', { name: 'Edit…' }).click()
  const editor = page.getByRole('dialog', { name: 'Edit what lands' })
  const text = editor.getByRole('textbox', { name: 'Text that lands' })
  await expect(text).toHaveValue("<<<<<<< yours\nzwei\n=======\nTWO\n>>>>>>> the agent's\n")
  await expect(editor.getByRole('button', { name: 'Use this text' })).toBeDisabled()
  await text.fill('zwei TWO\n')
  await editor.getByRole('button', { name: 'Use this text' }).click()
  await expect(apply).toBeEnabled()
  await apply.click()
  await expect(page.getByText('Applied 3 files').first()).toBeVisible()
  expect(await readFile(join(project, 'edit.txt'), 'utf8')).toBe('zwei TWO\n')
  expect(await readFile(join(project, 'shared.txt'), 'utf8')).toBe('one\nTWO\nthree\n')
  expect(await readFile(join(project, 'free.txt'), 'utf8')).toBe('free\nmore\n')
})

test('what was abandoned comes back to review', async ({ house }) => {
  const { page } = house
  await house.dispatch('echo kept > idea.txt')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('button', { name: 'Abandon…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Abandon' }).click()
  await page.getByRole('button', { name: 'Back to review' }).click()
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
})
