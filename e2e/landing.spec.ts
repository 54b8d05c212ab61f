import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from './house.ts'

const list = 'Dispatches'

test('an apply waits for whoever runs on the folder, and lands when that has ended', async ({ house }) => {
  const { page, project } = house
  await house.dispatch('sleep 300')
  await house.dispatch('ln -s nowhere link; echo done > result.txt')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  await expect(page.locator('.diff-view [data-hunk]')).toHaveCount(2)
  await expect(page.locator('.diff-view').getByText('No newline')).toHaveCount(0)

  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Apply to your files' })
  await expect(dialog.getByRole('note')).toContainText('is running on this folder')
  await dialog.getByRole('button', { name: 'Apply 2 files after that' }).click()
  const waiting = page.getByRole('status').filter({ hasText: 'has ended' })
  await expect(waiting).toBeVisible()
  expect(existsSync(join(project, 'result.txt'))).toBe(false)

  await waiting.getByRole('button', { name: 'sleep 300' }).click()
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await page
    .getByRole('navigation', { name: list })
    .getByRole('button', { name: /result\.txt/ })
    .click()
  await expect(page.getByRole('main').getByText('Applied', { exact: true })).toBeVisible()
  expect(await readFile(join(project, 'result.txt'), 'utf8')).toBe('done\n')
  await expect(waiting).toBeHidden()
})

test('commits made in a worktree are read one by one and landed the way one chooses', async ({ house }) => {
  const { page, project } = house
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', project, '-c', 'user.name=Ada', '-c', 'user.email=ada@test', ...args], {
      encoding: 'utf8',
    })
  await house.write({ 'one.txt': 'one\n' })
  git('init', '-q', '-b', 'main')
  git('config', 'user.name', 'Ada')
  git('config', 'user.email', 'ada@test')
  git('add', '-A')
  git('commit', '-qm', 'start')

  const commit = 'git -c user.name=Bot -c user.email=bot@test commit -qam'
  await house.dispatch(
    `echo two >> one.txt; ${commit} First; echo three >> one.txt; ${commit} Second`,
    async (dialog) => {
      await dialog.getByRole('button', { name: /^More/ }).click()
      await dialog.getByRole('radio', { name: 'Worktree' }).click()
      await dialog.getByRole('textbox', { name: 'Name of a new worktree' }).fill('parser')
      await dialog.getByRole('button', { name: 'Create' }).click()
      await expect(dialog.getByRole('button', { name: 'parser', pressed: true })).toBeVisible()
    },
  )
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await expect(page.getByRole('navigation', { name: list })).toContainText('shop · parser')
  await page.getByRole('tab', { name: /Changes/ }).click()
  await page.getByRole('radio', { name: 'Commits 2' }).click()
  await page
    .getByRole('list', { name: 'Commits' })
    .getByRole('button', { name: /Second/ })
    .click()
  await expect(page.locator('.diff-view').getByText('three', { exact: true })).toBeVisible()

  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Land in the worktree' })
  await dialog.getByRole('radio', { name: 'Squash' }).click()
  await dialog.getByRole('button', { name: 'Land 1 file' }).click()
  await expect(page.getByText(/^Landed on agency\/parser-/).first()).toBeVisible()
  const branch = git('branch', '--list', 'agency/parser-*', '--format=%(refname:short)').trim()
  expect(git('show', `${branch}:one.txt`)).toBe('one\ntwo\nthree\n')
  expect(git('rev-list', '--count', `main..${branch}`).trim()).toBe('1')
  expect(await readFile(join(project, 'one.txt'), 'utf8')).toBe('one\n')
})

test('a changeset that is sent back comes back as its next turn, and waits once', async ({ house }) => {
  const { page } = house
  await house.dispatch('seq 9 > said.txt; echo "turn ${ORANGERY_TURN:-one} $ORANGERY_PROMPT" >> said.txt')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  await page.getByRole('button', { name: 'Approve hunk 1' }).click()
  await expect(page.getByText('1/1 decided')).toBeVisible()
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: /Send back/ }).click()
  const dialog = page.getByRole('dialog', { name: 'Send back to the agent' })
  await expect(dialog.getByRole('button', { name: 'Send back' })).toBeDisabled()
  await dialog.getByRole('textbox', { name: 'Comment' }).fill('say more')
  await dialog.getByRole('button', { name: 'Send back' }).click()
  await expect(page.getByText('Turn 2 has started').first()).toBeVisible()
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await expect(page.getByRole('main').getByText('Completed')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  const said = page
    .locator('.diff-view')
    .getByText(/say more/)
    .first()
  // A review that was opened before the turn ended stands still until its reader wants the new one.
  const refresh = page.getByRole('button', { name: 'Refresh' })
  await expect(said.or(refresh).first()).toBeVisible()
  if (await refresh.isVisible()) await refresh.click()
  await expect(said).toBeVisible()
  // What was approved has changed since: it is open again, with the difference to what was approved.
  await expect(page.getByText('0/1 decided')).toBeVisible()
  await page.getByRole('button', { name: 'Changed again' }).click()
  const since = page.getByRole('dialog', { name: 'Changed since it was decided on' })
  await expect(since.getByText(/say more/).first()).toBeVisible()
  await expect(since.getByText(/turn one/).first()).toBeVisible()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('navigation', { name: list }).getByRole('heading')).toHaveText([
    'Waiting for you1',
    'Earlier1',
  ])
})

test('where only protected files are left the window says so, and each takes its own decision', async ({
  house,
}) => {
  const { page, project } = house
  await house.dispatch('echo use flake > .envrc')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await expect(page.getByRole('note')).toContainText('protected and needs a decision of its own')
  await expect(page.getByRole('button', { name: 'Apply…' })).toBeDisabled()
  await page.getByRole('tab', { name: /Changes/ }).click()
  await page.getByRole('button', { name: 'Approve hunk 1' }).click()
  await expect(page.getByRole('note')).toBeHidden()
  await page.keyboard.press('p')
  await page.getByRole('button', { name: 'Apply 1 file' }).click()
  await expect(page.getByText('Applied 1 file').first()).toBeVisible()
  expect(await readFile(join(project, '.envrc'), 'utf8')).toBe('use flake\n')
})

test('what has landed in part is taken back from the review: the last apply alone, or all of it', async ({
  house,
}) => {
  const { page, project } = house
  const text = async (name: string) => await readFile(join(project, name), 'utf8')
  await house.write({ 'a.txt': 'a\n', 'b.txt': 'b\n', 'c.txt': 'c\n' })
  await house.dispatch('for f in a b c; do echo more >> $f.txt; done')
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  const landed = page.getByRole('status').filter({ hasText: 'Part of it has landed' })
  await expect(page.getByRole('option')).toHaveCount(3)
  await expect(landed).toBeHidden()

  const land = async (left: number) => {
    await expect(page.getByText(/^1\/\d decided/)).toBeVisible()
    await page.getByRole('button', { name: 'Apply…' }).click()
    await page.getByRole('button', { name: 'Apply 1 file' }).click()
    await expect(page.getByRole('option')).toHaveCount(left)
  }
  const approveNext = () => page.getByRole('button', { name: 'Approve hunk 1' }).first().click()
  await approveNext()
  await land(2)
  await expect(landed.getByRole('button', { name: 'Undo what landed' })).toBeVisible()
  await approveNext()
  await land(1)
  await expect(landed).toContainText('in 2 applies')
  expect([await text('a.txt'), await text('b.txt')]).toEqual(['a\nmore\n', 'b\nmore\n'])

  await landed.getByRole('button', { name: 'Undo what landed' }).click()
  await page.getByRole('menuitem', { name: 'Undo the last apply' }).click()
  await expect(page.getByRole('option')).toHaveCount(2)
  expect([await text('a.txt'), await text('b.txt')]).toEqual(['a\nmore\n', 'b\n'])

  // It is as approved as it was before the apply that is taken back.
  await land(1)
  await landed.getByRole('button', { name: 'Undo what landed' }).click()
  await page.getByRole('menuitem', { name: 'Undo all 2 applies' }).click()
  await expect(page.getByRole('option')).toHaveCount(3)
  await expect(landed).toBeHidden()
  expect([await text('a.txt'), await text('b.txt')]).toEqual(['a\n', 'b\n'])
})

test('a deletion that comes after a rejection of the same file is asked for by itself', async ({ house }) => {
  const { page, project } = house
  await house.write({ 'a.txt': 'mine\n' })
  await house.dispatch(
    'if [ -z "$ORANGERY_TURN" ]; then seq 200 230 > a.txt; else mv a.txt b.txt; echo c > c.txt; fi',
  )
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  await page.getByRole('button', { name: 'Reject hunk 1' }).click()
  await expect(page.getByText('1/1 decided')).toBeVisible()
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: /Send back/ }).click()
  await page.getByRole('dialog').getByRole('textbox', { name: 'Comment' }).fill('leave it')
  await page.getByRole('dialog').getByRole('button', { name: 'Send back' }).click()
  await expect(page.getByText('Turn 2 has started').first()).toBeVisible()
  await expect(page.getByRole('main').getByText('Completed')).toBeVisible()
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()

  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Apply to your files' })
  await expect(dialog).toContainText('1 file of which you rejected a change was deleted since')
  await dialog.getByRole('button', { name: 'Apply 1 file' }).click()
  await expect(page.getByText('Applied 1 file').first()).toBeVisible()
  expect(existsSync(join(project, 'c.txt'))).toBe(true)
  expect(existsSync(join(project, 'b.txt'))).toBe(false)
  expect(await readFile(join(project, 'a.txt'), 'utf8')).toBe('mine\n')
  await expect(page.getByRole('note')).toContainText('Decide again')
})
