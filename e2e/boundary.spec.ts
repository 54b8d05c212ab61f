import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import Database from 'better-sqlite3'
import { expect, test } from './house.ts'

const execute = promisify(execFile)

/** Asks for a host through the proxy its environment names, as a package manager would. */
const ask = `
import { get } from 'node:http'
const proxy = new URL(process.env.http_proxy)
for (const host of process.argv.slice(2))
  await new Promise((resolve) =>
    get({ host: proxy.hostname, port: proxy.port, path: 'http://' + host + '/', headers: { host } }, (answer) => {
      console.log(host, answer.statusCode)
      answer.resume().on('end', resolve)
    }),
  )
`

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

test('one that runs and asks is in the list, and named on its card, behind any number of newer dispatches', async ({
  house,
}) => {
  const { page, project } = house
  await house.dispatch('touch made; sleep 300', async (dialog) => {
    await dialog.getByRole('button', { name: /^More/ }).click()
    await dialog.getByRole('radio', { name: 'Read only' }).click()
  })
  await page.getByRole('button', { name: /Asking for more/ }).click()
  const card = page.getByRole('article')
  await expect(card).toContainText('touch made; sleep 300')
  const database = new Database(join(project, '../data/orangery.db'))
  const ended = database.prepare(
    `INSERT INTO dispatches (id, agent, status, created_at, command) VALUES (?, 'command', 'completed', ?, '["true"]')`,
  )
  database.transaction(() => {
    for (let at = 0; at < 520; at++)
      ended.run(`20990101000000-${at.toString(16).padStart(4, '0')}`, '2099-01-01T00:00:00.000Z')
  })()
  database.close()
  const headings = page.getByRole('navigation', { name: 'Dispatches' }).getByRole('heading')
  await expect(headings).toHaveText(['Waiting for you1', 'Earlier500'])
  await expect(card).toContainText(/Read only.*Read, write.*touch made; sleep 300.* · command · shop/s)
  await card.getByRole('button', { name: /touch made/ }).click()
  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await expect(page.getByText('Stopped').first()).toBeVisible()
})

test('a denied host is asked about, saved to the project or allowed where it is listed, and revoked', async ({
  house,
}) => {
  const { page, project } = house
  await house.write({ 'ask.mjs': ask })
  const git = (...args: string[]) => execute('git', ['-C', project, ...args])
  await git('init', '-q')
  await git('remote', 'add', 'origin', 'https://code.test/shop.git')
  await house.dispatch('node ask.mjs registry.test telemetry.test; echo asked; sleep 300', async (dialog) => {
    await dialog.getByRole('button', { name: /^More/ }).click()
    // A preset is shown as what it means here, before it is granted.
    await dialog.getByRole('button', { name: '@git' }).click()
    const meaning = dialog.getByRole('list', { name: 'What the presets mean' })
    await expect(meaning).toContainText('@git means code.test:443')
    await dialog.getByRole('textbox', { name: 'Hosts it may reach' }).fill('known.test')
    await expect(meaning).toBeHidden()
  })
  await expect(page.getByTestId('terminal')).toContainText('asked')
  const card = page.getByRole('article').filter({ hasText: 'registry.test' })
  await expect(card).toContainText('Reach registry.test:80')
  await card.getByRole('button', { name: 'Save the answer' }).click()
  await page.getByRole('menuitem', { name: 'Allow and save to the project' }).click()
  const written = () => readFile(join(project, '.orangery.json'), 'utf8').catch(() => '')
  await expect.poll(written).toContain('registry.test:80')
  await expect(card).toBeHidden()

  const other = page.getByRole('article').filter({ hasText: 'telemetry.test' })
  await other.getByRole('button', { name: 'Deny…' }).click()
  await other.getByRole('textbox', { name: 'Message to the agent' }).fill('not from here')
  await other.getByRole('button', { name: 'Deny', exact: true }).click()
  await expect(other).toBeHidden()

  await page.getByRole('tab', { name: 'Record' }).click()
  const network = page.getByRole('region', { name: 'Network' })
  await expect(network).toContainText('telemetry.test:80')
  await network.getByRole('button', { name: 'Allow telemetry.test:80' }).click()
  const widen = page.getByRole('dialog', { name: 'Widen to Network' })
  await expect(widen.getByRole('textbox', { name: 'Hosts it may reach' })).toHaveValue('telemetry.test:80')
  await widen.getByRole('button', { name: 'Widen' }).click()
  await expect(widen).toBeHidden()
  const story = page.getByRole('region', { name: 'Boundary' })
  await expect(story).toContainText('not from here')
  await expect(story).toContainText('asked for in the window')
  const badge = page.getByRole('button', { name: /^Boundary:/ })
  await badge.click()
  await page.getByRole('menuitem', { name: 'Take back known.test' }).click()
  await expect(story).toContainText('known.test taken back')
  await badge.click()
  await expect(page.getByRole('menuitem', { name: 'Take back registry.test:80' })).toBeVisible()
  await expect(page.getByRole('menuitem', { name: 'Take back known.test' })).toBeHidden()
  await page.getByRole('menuitem', { name: 'Take back 2 granted hosts' }).click()
  await expect(story).toContainText('hosts taken back in the window')

  await page.getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Stop' }).click()
  await page.getByRole('button', { name: 'Sandbox ready' }).click()
  await page.getByRole('tab', { name: 'Approvals' }).click()
  const saved = page.getByRole('region', { name: 'Saved to projects' })
  await saved.getByRole('button', { name: /^Revoke .*registry\.test/ }).click()
  await expect(saved).toContainText('None.')
  expect(await written()).not.toContain('registry.test')
})

test("a project's config is trusted by its text, and a changed one is asked about with the difference", async ({
  house,
}) => {
  const { page, project } = house
  // Far to the right, where somebody would hide what is to be trusted unread.
  const config = (host: string) =>
    `{${' '.repeat(300)}"sandboxLevels": { "network": { "hosts": ["${host}"] } } }\n`
  await house.write({ '.orangery.json': config('first.test') })
  const form = page.getByRole('dialog', { name: 'New dispatch' })
  const fillIn = async () => {
    await page.keyboard.press('n')
    await form.getByRole('combobox', { name: 'Folder' }).fill(project)
    await form.getByRole('textbox', { name: 'Command', exact: true }).fill('true')
  }
  const trust = page.getByRole('dialog', { name: "Trust this project's config" })
  await fillIn()
  await expect(form).toContainText('a config you have not trusted')
  await form.getByRole('button', { name: 'Look at it' }).click()
  await expect(trust).toContainText('first.test')
  const isInSight = await page.evaluate<boolean>(`(() => {
    const box = [...document.querySelectorAll('[role=dialog] pre')].find(({ textContent }) => textContent.includes('first.test'))
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT)
    let node = walker.nextNode()
    while (!node.data.includes('first.test')) node = walker.nextNode()
    const word = document.createRange()
    word.setStart(node, node.data.indexOf('first.test'))
    word.setEnd(node, node.data.indexOf('first.test') + 'first.test'.length)
    const { left, right } = word.getBoundingClientRect()
    const edges = box.getBoundingClientRect()
    return left >= edges.left && right <= edges.right
  })()`)
  expect(isInSight).toBe(true)
  await trust.getByRole('button', { name: 'Trust exactly this text' }).click()
  await expect(form.getByText('Until then it can only narrow')).toBeHidden()
  await form.getByRole('button', { name: 'Cancel' }).click()

  await house.write({ '.orangery.json': config('second.test') })
  await fillIn()
  await expect(form).toContainText('has changed since you trusted it')
  await form.getByRole('button', { name: 'Look at it' }).click()
  await expect(trust.getByText('first.test')).toBeVisible()
  await expect(trust.getByText('second.test')).toBeVisible()
  await trust.getByRole('button', { name: 'Not now' }).click()
  await expect(form).toContainText('has changed since you trusted it')
  await form.getByRole('button', { name: 'Cancel' }).click()

  // One that cannot be read is no trusted one.
  await house.write({ '.orangery.json': '{ "sandboxBoundaries": { "plan": "everything" } }\n' })
  await fillIn()
  await expect(form.getByText(/cannot be told: .*\.orangery\.json:1/)).toBeVisible()
})
