import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Locator } from '@playwright/test'
import { expect, test } from './house.ts'

test('a build that needs a host fails, the request appears, a person saves the approval to the project, the build goes on and the next one does not ask', async ({
  house,
}) => {
  const { page, project } = house
  const reached: string[] = []
  const outside = createServer((request, response) => {
    reached.push(request.url ?? '')
    response.end('a package\n')
  }).listen(0, '127.0.0.1')
  await using _outside = { [Symbol.asyncDispose]: async () => void outside.close() }
  await once(outside, 'listening')
  const { port } = outside.address() as AddressInfo
  const build =
    'until curl -sf --max-time 5 http://registry.test:8080/package; do echo failed; sleep 0.3; done; echo built'
  const gated = async (dialog: Locator) => {
    const readOnly = dialog.getByRole('radio', { name: 'Read only' })
    // The form is as it was left the last time.
    if (!(await readOnly.isVisible())) await dialog.getByRole('button', { name: /^More/ }).click()
    await readOnly.click()
    await dialog
      .getByRole('textbox', { name: 'Hosts it may reach' })
      .fill(`registry.test:8080=127.0.0.1:${port}`)
  }

  await house.dispatch(build, gated)
  const terminal = page.getByTestId('terminal')
  await expect(terminal).toContainText('failed')
  expect(reached).toEqual([])
  const asking = page.getByRole('button', { name: /Asking for more/ })
  await asking.first().click()
  // The command that the card shows names the host too: what counts is what the card says a yes opens.
  const opening = page.getByRole('listitem').filter({ hasText: 'Reach registry.test:8080' })
  const request = page.getByRole('article').filter({ has: opening })
  await request.getByRole('button', { name: 'Save the answer' }).click()
  await page.getByRole('menuitem', { name: 'Allow and save to the project' }).click()
  await expect(asking).toHaveCount(0)
  await expect.poll(() => reached).toEqual(['/package'])
  expect(await readFile(join(project, '.orangery.json'), 'utf8')).toContain('registry.test:8080')

  await house.dispatch(build, gated)
  await expect(terminal).toContainText('built')
  await expect(terminal).not.toContainText('failed')
  expect(reached).toEqual(['/package', '/package'])
  await expect(asking).toHaveCount(0)
})
