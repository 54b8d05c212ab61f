import { expect, test } from './demoHouse.ts'

test('what is approved already is listed with where it is written, and can be revoked', async ({ demo }) => {
  const { page } = demo
  await page.getByRole('button', { name: 'Sandbox ready' }).click()
  await page.getByRole('tab', { name: 'Approvals' }).click()
  const saved = page.getByRole('region', { name: 'Saved to projects' })
  await expect(saved).toContainText('registry.example.com:443')
  await expect(saved).toContainText('/home/ada/shop/.orangery.json:4')
  await saved.getByRole('button', { name: /^Revoke/ }).click()
  await expect(saved).toContainText('None.')
})

test('logs are kept up to a size one sets, and removing any is asked about first', async ({ demo }) => {
  const { page } = demo
  await demo.go('#/computer/storage')
  const kept = page.getByRole('region', { name: 'Logs' })
  await expect(kept.getByRole('radio', { name: 'All' })).toBeChecked()
  await kept.getByRole('radio', { name: '1 GB' }).click()
  await expect(kept.getByRole('radio', { name: '1 GB' })).toBeChecked()
  await kept.getByRole('radio', { name: '100 MB' }).click()
  const dialog = page.getByRole('dialog', { name: 'Remove old logs' })
  await dialog.getByRole('button', { name: 'Keep them' }).click()
  await expect(kept.getByRole('radio', { name: '1 GB' })).toBeChecked()
  await kept.getByRole('radio', { name: '100 MB' }).click()
  await dialog.getByRole('button', { name: 'Remove the oldest' }).click()
  await expect(page.getByText('1 removed with 200 MB').first()).toBeVisible()
  await expect(kept).toContainText('100 MB of event logs')
  await page.getByRole('region', { name: 'Dispatches' }).getByRole('button').click()
  await expect(page.getByRole('heading', { name: 'Make coupons work in the cart' })).toBeVisible()
})

test('what was put away comes back, what belongs to nothing is shown, and nothing is removed unnamed', async ({
  demo,
}) => {
  const { page } = demo
  await demo.go('#/computer/workspaces')
  const orphans = page.getByRole('region', { name: 'Orphans' })
  await expect(orphans).toContainText('A branch without a sandbox')
  await expect(orphans).toContainText('git branch -D')
  const archive = page.getByRole('region', { name: 'Archive' })
  await archive.getByRole('button', { name: 'Restore first try' }).click()
  await expect(archive).toContainText('Nothing was put away.')

  const sandboxes = page.getByRole('region', { name: 'Idle sandboxes' })
  await expect(sandboxes).toContainText('from parser')
  await sandboxes.getByRole('button', { name: 'Run in second try' }).click()
  await expect(page.getByRole('dialog', { name: 'New dispatch' })).toContainText('20260128121500-c0de')
  await page.keyboard.press('Escape')
  await sandboxes.getByRole('button', { name: 'Discard second try' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Discard', exact: true }).click()
  await expect(sandboxes).toContainText('None.')

  const worktrees = page.getByRole('region', { name: 'Worktrees' })
  await worktrees.getByRole('button', { name: 'Remove worktree parser' }).click()
  const dialog = page.getByRole('dialog', { name: 'Remove this worktree' })
  await expect(dialog).toContainText('notes.md')
  await expect(dialog).toContainText('5754e59 Add the parser')
  await dialog.getByRole('button', { name: 'Keep it' }).click()
  await expect(worktrees).toContainText('parser')
  await worktrees.getByRole('button', { name: 'Remove worktree parser' }).click()
  await dialog.getByRole('button', { name: 'Archive the work and remove' }).click()
  await expect(worktrees).toContainText('None.')
})

test('every setting is shown with where it came from, and what has no effect with why', async ({ demo }) => {
  const { page } = demo
  await demo.go('#/computer/settings')
  const set = page.getByRole('region', { name: 'Set', exact: true })
  await expect(set.getByRole('listitem').filter({ hasText: 'sandboxMaximumBoundary' })).toContainText(
    '/home/ada/.config/orangery/config.json:2',
  )
  await expect(set.getByRole('listitem').filter({ hasText: 'agentForbiddenTools' })).toContainText('Project')
  await expect(page.getByRole('region', { name: 'Without effect' })).toContainText('would widen')
  await set.getByText('2 at their defaults').click()
  await expect(set.getByText('sandboxBoundaries.plan')).toBeVisible()
})
