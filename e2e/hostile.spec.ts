import { readdirSync } from 'node:fs'
import { expect, test } from './house.ts'

const script = String.raw`
import { mkdirSync, writeFileSync } from 'node:fs'
writeFileSync('<img src=x onerror=window.pwned=1>.ts', 'const a = "<script>window.pwned=1</script>"\n')
writeFileSync('invoice\u202Efdp.exe', 'run me\n')
writeFileSync('line\nbreak.txt', 'x\n')
writeFileSync('bidi.js', 'if (user !== "admin\u202e \u2066// only admins\u2069 \u2066") grant()\n')
writeFileSync('escape.txt', '\u001b]52;c;ZXZpbA==\u0007\u001b[2Jclear\n')
writeFileSync(Buffer.from([0x66, 0xff, 0x2e, 0x74, 0x78, 0x74]), 'no utf-8\n')
process.stdout.write('<img src=x onerror=window.pwned=1>\r\n')
process.stdout.write('\u001b]52;c;ZXZpbA==\u0007after-clipboard\r\n')
process.stdout.write('\u001b]8;;https://evil.example\u0007click-me\u001b]8;;\u0007\r\n')
process.stdout.write('mirror\u202Ederorrim\r\n')
process.stdout.write('\u001b]0;stolen title\u0007ready\r\n')
`

test('names, content and output written to deceive are shown as what they are', async ({ house }) => {
  const { page } = house
  await house.write({ 'trap.mjs': script })
  await house.dispatch('node trap.mjs')
  const terminal = page.getByTestId('terminal')
  await expect(terminal).toContainText('ready')
  await expect(terminal).toContainText('<img src=x onerror=window.pwned=1>')
  await expect(terminal).toContainText('mirror‹U+202E›derorrim')
  await expect(terminal).toContainText('after-clipboard')
  await expect(terminal).toContainText('click-me')
  await expect(terminal.locator('a')).toHaveCount(0)
  await expect(page).toHaveTitle('Orangery')

  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  const list = page.getByRole('listbox', { name: 'Changed files' })
  await expect(list.getByRole('option')).toHaveCount(6)
  await expect(list).toContainText('<img src=x onerror=window.pwned=1>.ts')
  await expect(list).toContainText('invoice‹U+202E›fdp.exe')
  await expect(list).toContainText('line‹LF›break.txt')
  const diff = page.locator('.diff-view')
  await list.getByRole('option', { name: /bidi\.js/ }).click()
  await expect(diff.getByText('‹U+202E›', { exact: false }).first()).toBeVisible()
  await list.getByRole('option', { name: /escape\.txt/ }).click()
  await expect(
    diff.getByText('‹ESC›]52;c;ZXZpbA==‹BEL›‹ESC›[2Jclear', { exact: false }).first(),
  ).toBeVisible()
  await list.getByRole('option', { name: /onerror/ }).click()
  await expect(diff.getByText('<script>window.pwned=1</script>', { exact: false }).first()).toBeVisible()

  expect(await page.evaluate('window.pwned')).toBeUndefined()
  // The positive control: the same text taken for markup makes an element, so one would have been seen.
  await page.evaluate(`document.body.insertAdjacentHTML('beforeend', '<img alt="made of text">')`)
  expect(await page.locator('img').count()).toBe(1)
  await page.evaluate(`document.querySelector('img').remove()`)
  expect(await page.locator('img').count()).toBe(0)
})

test('of names that are no UTF-8 each is decided on, and what can never land is said before the rest does', async ({
  house,
}) => {
  const { page, project } = house
  await house.dispatch(
    String.raw`for n in '\376' '\377'; do printf "x$n" > "$(printf "f$n.txt")"; done; ln -s /etc/passwd out`,
  )
  await expect(page.getByRole('main').getByText('Needs review')).toBeVisible()
  await page.getByRole('tab', { name: /Changes/ }).click()
  await expect(page.getByRole('option')).toHaveCount(3)
  await expect(page.getByText(/^Cannot land: a link to an absolute path/)).toBeVisible()
  await expect(page.locator('.diff-view [data-hunk]')).toHaveCount(2)
  await page.getByRole('button', { name: 'Reject file' }).first().click()
  await expect(page.getByText('1/2 decided')).toBeVisible()
  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Apply to your files' })
  await dialog.getByText('1 file can never land').click()
  await expect(dialog.getByText(/a link to an absolute path outside the roots never lands/)).toBeVisible()
  await dialog.getByRole('button', { name: 'Apply 1 file' }).click()
  await expect(page.getByText('Applied 1 file').first()).toBeVisible()
  const landed = readdirSync(project, { encoding: 'buffer' }).map((name) => name.toString('latin1'))
  expect(landed.filter((name) => name.endsWith('.txt'))).toEqual(['f\xff.txt'])
  expect(landed).not.toContain('out')
})
