import { OrangeryError } from '../src/shared/errors.ts'
import { expect, test } from './demoHouse.ts'

test('dispatches stand by what needs a person, and search narrows them', async ({ demo }) => {
  const { page } = demo
  const list = page.getByRole('navigation', { name: 'Dispatches' })
  await expect(list.getByRole('heading')).toHaveText(['Waiting for you3', 'Running1', 'Earlier6'])
  await expect(page.locator('label', { has: page.getByText('/', { exact: true }) })).toHaveCount(1)
  await page.keyboard.press('/')
  await page.keyboard.type('importer')
  await expect(list.getByRole('button')).toHaveCount(1)
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'Port the importer to streams' })).toBeVisible()
  await page.keyboard.press('Escape')
  await expect(list.getByRole('button')).toHaveCount(10)
})

test('a family of dispatches stands together, and an unbroken line leads from a parent to each child', async ({
  demo,
}) => {
  const { page } = demo
  const list = demo.handlers['dispatch.list']
  const parent = await demo.idOf('Port the importer')
  const family = ['Read the feed', 'Check the pages', 'Check one page'].map((name, at) => ({
    name,
    id: `20260101000000-fa0${at}` as never,
    parent_id: at === 2 ? ('20260101000000-fa01' as never) : (parent as never),
  }))
  const withFamily: Partial<typeof demo.handlers> = {
    'dispatch.list': async (input, caller) => {
      const rows = await list(input, caller)
      const mother = rows.find((row) => row.id === parent)!
      // The eldest last: the line to it runs past its sibling's child.
      return [...rows, ...family.toReversed().map((child) => ({ ...mother, ...child }))]
    },
  }
  Object.assign(demo.handlers, withFamily)
  await page.reload()
  const nav = page.getByRole('navigation', { name: 'Dispatches' })
  const row = (name: string) => nav.getByRole('button', { name: new RegExp(`^(Level.*)?${name}`) })
  await expect(row('Check one page')).toBeVisible()
  const names = await nav.getByRole('button').allTextContents()
  const first = names.findIndex((text) => text.startsWith('Port the importer'))
  expect(
    names
      .slice(first + 1, first + 4)
      .map((text) => text.match(/^(Check the pages|Check one page|Read the feed)/)?.[0]),
  ).toEqual(['Check the pages', 'Check one page', 'Read the feed'])
  // As drawn: the pieces of each upright line, and how far apart the farthest neighbours are.
  const gaps = await page.evaluate<Record<string, number>>(`(() => {
    const uprights = new Map()
    for (const piece of document.querySelectorAll('nav [data-rails] > span')) {
      if (parseFloat(getComputedStyle(piece).borderLeftWidth) === 0) continue
      const { left, top, bottom } = piece.getBoundingClientRect()
      uprights.set(Math.round(left), [...(uprights.get(Math.round(left)) ?? []), { top, bottom }])
    }
    return Object.fromEntries([...uprights].map(([left, pieces]) => {
      const sorted = pieces.toSorted((a, b) => a.top - b.top)
      return [left, Math.max(0, ...sorted.slice(1).map((piece, at) => piece.top - sorted[at].bottom))]
    }))
  })()`)
  expect(Object.keys(gaps)).toHaveLength(2)
  for (const gap of Object.values(gaps)) expect(gap).toBeLessThan(1)
  await row('Check one page').click()
  await expect(page).toHaveURL(/fa02/)
})

test('protected files carry their mark and stay out of approving all', async ({ demo }) => {
  const { page } = demo
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  await expect(page.getByText('2 protected')).toBeVisible()
  const list = page.getByRole('listbox', { name: 'Changed files' })
  await expect(list.getByRole('button', { name: 'Ignored by git 40' })).toHaveAttribute(
    'aria-expanded',
    'false',
  )
  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog).toContainText('2 files can run code')
  await expect(dialog.getByRole('button', { name: 'Apply 7 files' })).toBeEnabled()
  await dialog.getByRole('checkbox', { name: /Include 40 files that git ignores/ }).check()
  await expect(dialog.getByRole('button', { name: 'Apply 47 files' })).toBeEnabled()
  await dialog.getByRole('checkbox', { name: /Approve all 7 files/ }).uncheck()
  await expect(dialog.getByRole('button', { name: 'Apply 0 files' })).toBeDisabled()
})

test('a review goes by keyboard alone, and a typed comment is not lost', async ({ demo }) => {
  const { page } = demo
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  await expect(page.locator('[data-hunk]').first()).toBeVisible()
  // The key goes to the files of the review now, and only there it is said.
  const slash = page.locator('label', { has: page.getByText('/', { exact: true }) })
  await expect(slash).toHaveCount(1)
  await expect(slash.getByPlaceholder('Find a file')).toBeVisible()
  await page.keyboard.press('j')
  await page.keyboard.press('r')
  await page.getByRole('textbox', { name: 'Comment for rework' }).fill('Not in my shell')
  await page.keyboard.press('Escape')
  await page.keyboard.press('r')
  await expect(page.getByRole('textbox', { name: 'Comment for rework' })).toHaveValue('Not in my shell')
  await page.keyboard.press('Control+Enter')
  await expect(
    page.locator('[data-file-header=".envrc"]').getByRole('button', { name: 'Rework file' }),
  ).toHaveAttribute('aria-pressed', 'true')
  await page.keyboard.press('l')
  await page.keyboard.press('a')
  await expect(page.getByText('2/10 decided')).toBeVisible()
  await page.keyboard.press('v')
  await expect(page.getByRole('radio', { name: 'Side by side' })).toBeChecked()
  await page.keyboard.press('v')
  await page.keyboard.press('u')
  await expect(page.getByText('1/10 decided')).toBeVisible()
  await page.keyboard.press('/')
  await page.keyboard.type('coupons')
  await expect(page.getByRole('option')).toHaveCount(1)
  await page.keyboard.press('Escape')
  await page.keyboard.press('?')
  await expect(page.getByRole('dialog', { name: 'Keys' })).toBeVisible()
})

test('a key of a review decides on nothing that is not shown: it brings it into sight, and the next one decides', async ({
  demo,
}) => {
  const { page } = demo
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  await expect(page.locator('[data-hunk]').first()).toBeVisible()
  const decided = (count: number) => expect(page.getByText(`${count}/10 decided`)).toBeVisible()
  const marked = page.locator('[data-hunk][data-current=true]')
  const settled = () => page.waitForTimeout(600)

  // Nothing is marked yet, and the first file is a protected one.
  await expect(marked).toHaveCount(0)
  await page.keyboard.press('a')
  await expect(marked).toBeInViewport()
  await decided(0)
  await page.keyboard.press('a')
  await decided(1)

  // Scrolled off.
  await settled()
  await page.locator('.diff-view').hover()
  await page.mouse.wheel(0, 5_000)
  await expect(marked).not.toBeInViewport()
  await page.keyboard.press('x')
  await expect(marked).toBeInViewport()
  await decided(1)

  // Behind another view, which has no marks.
  await page.getByRole('radio', { name: 'This turn' }).click()
  await expect(marked).toHaveCount(0)
  await page.keyboard.press('x')
  await expect(page.getByRole('radio', { name: 'All' })).toBeChecked()
  await expect(marked).toBeInViewport()
  await decided(1)

  // A key that is held down does what it does once.
  await settled()
  for (let at = 0; at < 4; at++) await page.keyboard.down('a')
  await page.keyboard.up('a')
  await decided(2)
})

test('what is on record against a dispatch stands beside the way to let it in', async ({ demo }) => {
  const { page } = demo
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  const denied = page.getByRole('button', { name: '1 host denied' })
  await expect(denied).toHaveAttribute('title', 'telemetry.example.com:443')
  await expect(page.getByRole('button', { name: '1 violation' })).toBeVisible()
  await denied.click()
  await expect(page.getByText('14 turns where 12 were allowed')).toBeVisible()
  await page.getByRole('button', { name: /Update the snapshots/ }).click()
  await expect(page.getByRole('heading', { name: 'Update the snapshots' })).toBeVisible()
  await expect(denied).toBeHidden()
})

test('an answer that cannot be had is said with what helps and a way to ask again', async ({ demo }) => {
  const { page } = demo
  const [get, list] = [demo.handlers['changeset.get'], demo.handlers['dispatch.list']]
  const broken: Partial<typeof demo.handlers> = {
    'dispatch.list': async () => {
      throw new OrangeryError('demo.broken', 'the records cannot be read', { kind: 'busy' })
    },
    'changeset.get': async () => {
      throw new OrangeryError('demo.broken', 'changeset: its objects cannot be read', {
        kind: 'busy',
        hint: 'Free some disk space.',
      })
    },
  }
  Object.assign(demo.handlers, broken)
  await page.reload()
  const lost = page.getByRole('alert').filter({ hasText: 'the records cannot be read' })
  await expect(lost).toBeVisible()
  Object.assign(demo.handlers, { 'dispatch.list': list })
  await lost.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  const trouble = page.getByRole('alert').filter({ hasText: 'its objects cannot be read' })
  await expect(trouble).toContainText('Free some disk space.')
  Object.assign(demo.handlers, { 'changeset.get': get })
  await trouble.getByRole('button', { name: 'Try again' }).click()
  await expect(page.locator('[data-hunk]').first()).toBeVisible()
})

test('of several roots each file says which it is in, in the list and above its diff', async ({ demo }) => {
  const { page } = demo
  const [get, diff] = [demo.handlers['changeset.get'], demo.handlers['changeset.diff']]
  const roots = ['/home/ada/shop/app', '/home/ada/docs/app']
  const several: Partial<typeof demo.handlers> = {
    'changeset.get': async (input, caller) => {
      const changeset = await get(input, caller)
      const files = changeset.files.map((file, at) => ({ ...file, root: roots[at % 2]! }))
      return { ...changeset, roots, files }
    },
    'changeset.diff': async (input, caller) => {
      const answer = await diff(input, caller)
      const own = answer.text.split(/^(?=diff --git )/m).find((text) => text.includes(` b/${input.path}\n`))
      return { ...answer, text: own ?? '' }
    },
  }
  Object.assign(demo.handlers, several)
  await page.getByRole('button', { name: /Make coupons work/ }).click()
  const list = page.getByRole('listbox', { name: 'Changed files' })
  await expect(list.getByRole('option', { name: 'shop/app/.envrc' })).toBeVisible()
  await expect(list.getByRole('option', { name: 'docs/app/README.md' })).toBeVisible()
  await expect(page.locator('[data-file-header=".envrc"]').getByTitle('shop/app/.envrc')).toBeVisible()
})

test('the record says where what happened differs from what was asked', async ({ demo }) => {
  const { page } = demo
  await demo.go(`#/dispatch/${await demo.idOf('Make coupons')}/record`)
  await expect(page.getByText('14 turns where 12 were allowed')).toBeVisible()
  await expect(page.getByRole('row', { name: /Network/ })).toContainText('telemetry.example.com')
  await expect(page.getByText('Boundary readwrite → network')).toBeVisible()
  const network = page.getByRole('region', { name: 'Network' })
  await expect(network.getByRole('listitem').first()).toContainText('telemetry.example.com:443')
  await expect(network).toContainText('18 connections, 882 KB')
})

test('what never started looks unlike what failed, and says why', async ({ demo }) => {
  const { page } = demo
  const list = page.getByRole('navigation', { name: 'Dispatches' })
  const look = (status: string) =>
    page.evaluate<string>(`(() => {
      const { backgroundColor, boxShadow } = getComputedStyle(document.querySelector('nav [data-status="${status}"]'))
      return backgroundColor + boxShadow
    })()`)
  await expect(list.getByRole('button', { name: './train.sh' })).toBeVisible()
  expect(await look('preflight_failed')).not.toBe(await look('failed'))
  await expect(list.getByRole('button', { name: './train.sh' })).toContainText('Did not start')
  await list.getByRole('button', { name: './train.sh' }).click()
  await expect(page.getByRole('heading', { name: 'It did not start' })).toBeVisible()
  await expect(page.getByText('Nothing ran and no file was touched.')).toBeVisible()
  await expect(page.getByRole('list', { name: 'Reasons' })).toContainText(
    'no runtime that gives a virtual machine',
  )
  // Another level is a choice with its name, made in the form and never taken by itself.
  await expect(page.getByRole('button', { name: 'Run without a sandbox…' })).toBeVisible()
  await page.getByRole('button', { name: 'Run at level 2, Container, instead…' }).click()
  const form = page.getByRole('dialog', { name: 'New dispatch' })
  await expect(form.getByRole('radio', { name: 'Container' })).toBeChecked()
  await expect(form.getByRole('textbox', { name: 'Command', exact: true })).toHaveValue('./train.sh')
})

test('a level this computer cannot do is said before the start, with what helps', async ({ demo }) => {
  const { page } = demo
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'New dispatch' })
  await dialog.getByRole('textbox', { name: 'Command', exact: true }).fill('make')
  await expect(dialog.getByText('Ready to start')).toBeVisible()
  await dialog.getByRole('radio', { name: 'Virtual machine' }).click()
  await expect(dialog.getByRole('alert')).toContainText('apt install qemu-system-x86')
  await expect(dialog.getByRole('button', { name: /^Start/ })).toBeDisabled()
  await dialog.getByRole('radio', { name: 'No sandbox' }).click()
  await expect(dialog.getByRole('button', { name: /^Start without sandbox/ })).toBeEnabled()
  await expect(dialog.getByLabel('The same in a terminal')).toContainText('--level 0')
})

test('the theme follows the system until a person chooses', async ({ demo }) => {
  const { page } = demo
  const ground = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
  const light = await ground()
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = await ground()
  expect(dark).not.toBe(light)
  await page.getByRole('button', { name: 'Theme: as the system' }).click()
  expect(await ground()).toBe(light)
  await page.reload()
  await expect(page.getByRole('button', { name: 'Theme: light' })).toBeVisible()
  expect(await ground()).toBe(light)
})

test('an agent that asks for more is answered from the inbox by keyboard', async ({ demo }) => {
  const { page } = demo
  await page.getByRole('button', { name: /Asking for more/ }).click()
  const card = page.getByRole('article')
  await expect(card).toContainText('Reach registry.example.com:443')
  await expect(card).toContainText('Port the importer to streams')
  await page.keyboard.press('x')
  await expect(page.getByRole('textbox', { name: 'Message to the agent' })).toBeFocused()
  await page.keyboard.press('Escape')
  await card.getByRole('button', { name: 'Save the answer' }).click()
  await page.getByRole('menuitem', { name: 'Save until…' }).click()
  const saving = page.getByRole('dialog', { name: 'Allow and save' })
  await saving.getByRole('radio', { name: '7 days' }).click()
  await expect(saving).toContainText('registry.example.com:443')
  await saving.getByRole('radio', { name: 'No end' }).click()
  await expect(saving).toContainText('you revoke it')
  await page.keyboard.press('Escape')
  await page.keyboard.press('t')
  await expect(page.getByText('Nobody asks for more.')).toBeVisible()
  await expect(page.getByRole('button', { name: /Asking for more/ })).toBeHidden()
  await page.getByRole('button', { name: /Port the importer/ }).click()
  await expect(page.getByRole('button', { name: 'Boundary: Network' })).toBeVisible()
})

test('that an agent stays beyond the config is told as such, and neither key nor button answers it', async ({
  demo,
}) => {
  const { page } = demo
  const inbox = demo.handlers['boundary.inbox']
  const answers: string[] = []
  const kept: Partial<typeof demo.handlers> = {
    'boundary.inbox': async (input, caller) => {
      const [first] = await inbox(input, caller)
      const why = 'the config now allows at most readonly: notes.md is open for writing'
      return first === undefined ? [] : [{ ...first, to: 'readwrite', hosts: [], source: 'config', why }]
    },
    'boundary.approve': async () => (answers.push('approve'), []),
    'boundary.deny': async () => (answers.push('deny'), []),
  }
  Object.assign(demo.handlers, kept)
  await page.reload()
  await expect(page.getByRole('navigation', { name: 'Dispatches' })).toContainText('Beyond config')
  await page.getByRole('button', { name: /Beyond your config/ }).click()
  const card = page.getByRole('article')
  await expect(card).toContainText('notes.md is open for writing')
  await expect(card.getByRole('button', { name: /Allow|Save|Deny/ })).toHaveCount(0)
  for (const key of ['a', 't', 's', 'u', 'x']) await page.keyboard.press(key)
  await expect(page.getByRole('textbox', { name: 'Message to the agent' })).toBeHidden()
  // A key that is heard shows that the others were.
  await page.keyboard.press('?')
  await expect(page.getByRole('dialog', { name: 'Keys' })).toBeVisible()
  expect(answers).toEqual([])
})

test('a narrowing that the sandbox has not followed yet is no fact', async ({ demo }) => {
  const { page } = demo
  const show = demo.handlers['boundary.show']
  let followed = false
  const slow: Partial<typeof demo.handlers> = {
    'boundary.show': async (input, caller) => {
      const state = await show(input, caller)
      return followed ? state : { ...state, level: 'readonly', in_effect: 'readwrite' }
    },
  }
  Object.assign(demo.handlers, slow)
  const id = await demo.idOf('Port the importer')
  await demo.go(`#/dispatch/${id}/output`)
  await expect(page.getByRole('button', { name: 'Boundary: Read, write' })).toBeVisible()
  await expect(page.getByText('Read only, not yet')).toBeVisible()
  followed = true
  demo.touch(id)
  await expect(page.getByText('Read only, not yet')).toBeHidden()
})

test('a file that a crash left neither old nor new is settled by a person', async ({ demo }) => {
  const { page } = demo
  await page.getByRole('button', { name: /Update the snapshots/ }).click()
  await page.getByRole('button', { name: 'Undo', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'Somebody wrote this file meanwhile' })
  await expect(dialog).toContainText('/home/ada/shop/')
  await dialog.getByRole('button', { name: 'Decide later' }).click()
  // Until it is settled whoever looks at the changes is told, before anybody tries to apply again.
  await page.getByRole('tab', { name: /Changes/ }).click()
  const notice = page.getByRole('alert').filter({ hasText: 'A crash cut an apply off, and it stopped at' })
  await expect(notice).toBeVisible()
  await notice.getByRole('button', { name: 'Settle…' }).click()
  await dialog.getByRole('button', { name: 'Keep what is there' }).click()
  await expect(dialog).toBeHidden()
  await expect(notice).toBeHidden()
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
})
