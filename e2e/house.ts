import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { _electron, expect, test as base, type Locator, type Page } from '@playwright/test'
import { removeTree } from '../test/dispatch/removeTree.ts'
import { electronProgram } from './electron.ts'

const root = resolve(import.meta.dirname, '..')
const node = resolve(root, 'node_modules', '.bin', 'node')
const cli = resolve(root, 'out', 'main', 'cli.js')

/** A person's machine for one test: a project, a data folder, and the window on them. */
export type House = {
  readonly page: Page
  readonly project: string
  write(files: Readonly<Record<string, string>>): Promise<void>
  /** Fills in the form and starts; the page of the dispatch is open afterwards. */
  dispatch(command: string, more?: More): Promise<void>
  /** The host alone, as after a crash; the page stays. */
  killHost(): Promise<void>
}

class Folders implements AsyncDisposable {
  readonly base: string
  readonly project: string
  readonly env: Record<string, string>

  private constructor(base: string) {
    this.base = base
    this.project = join(base, 'shop')
    const own = (name: string) => join(base, name)
    const { PATH = '', LANG = 'C.UTF-8', DISPLAY = '' } = process.env
    // Nothing of the person who runs the tests: neither records nor configuration nor sockets.
    this.env = {
      PATH,
      LANG,
      ...(DISPLAY === '' ? {} : { DISPLAY }),
      HOME: own('home'),
      ORANGERY_DATA_DIR: own('data'),
      XDG_CONFIG_HOME: own('config'),
      XDG_RUNTIME_DIR: own('run'),
    }
  }

  static async make(): Promise<Folders> {
    const folders = new Folders(await mkdtemp(join(tmpdir(), 'orangery-e2e-')))
    for (const name of ['home', 'config', 'run', 'shop'])
      await mkdir(join(folders.base, name), { mode: 0o700 })
    return folders
  }

  async write(files: Readonly<Record<string, string>>): Promise<void> {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(this.project, path)), { recursive: true })
      await writeFile(join(this.project, path), text)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await removeTree(this.base)
  }
}

function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
  return new Promise((resolve) => child.once('exit', () => resolve()))
}

async function startHost(env: Record<string, string>): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(node, [cli, 'serve', '--json'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: child.stdout })) {
    return { child, url: (JSON.parse(line) as { url: string }).url }
  }
  throw new Error('orangery serve ended without an address')
}

type More = (dialog: Locator) => Promise<void>

async function spawnIn(page: Page, project: string, command: string, more?: More): Promise<void> {
  await page.getByRole('button', { name: 'New dispatch' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'New dispatch' })
  await dialog.getByRole('combobox', { name: 'Folder' }).fill(project)
  await dialog.getByRole('textbox', { name: 'Command', exact: true }).fill(command)
  await more?.(dialog)
  await expect(dialog.getByText('Ready to start')).toBeVisible()
  await expect(dialog.getByText(/^The sandbox it would get, \d+ lines$/)).toBeVisible()
  await dialog.getByRole('button', { name: /^Start/ }).click()
  await expect(dialog).toBeHidden()
}

export const test = base.extend<{ house: House }>({
  house: async ({ browser, viewport, colorScheme }, use, info) => {
    const desktop = info.project.name === 'desktop'
    const program = electronProgram()
    test.skip(desktop && program === undefined, 'no Electron binary')
    await using folders = await Folders.make()
    await using scope = new AsyncDisposableStack()
    let page: Page
    let kill = () => Promise.resolve()
    if (desktop) {
      const args = process.getuid?.() === 0 ? ['--no-sandbox', root] : [root]
      const app = await _electron.launch({
        ...(program ? { executablePath: program } : {}),
        args,
        env: folders.env,
      })
      scope.defer(() => app.close())
      page = await app.firstWindow()
    } else {
      const { child, url } = await startHost(folders.env)
      kill = async () => {
        child.kill('SIGTERM')
        await ended(child)
      }
      scope.defer(kill)
      const context = await browser.newContext({ viewport, colorScheme })
      scope.defer(() => context.close())
      page = await context.newPage()
      await page.goto(url)
    }
    const trouble: string[] = []
    page.on('pageerror', (error) => trouble.push(error.message))
    page.on('console', (message) => {
      if (message.type() === 'error') trouble.push(message.text())
    })
    await expect(page.getByRole('button', { name: 'New dispatch' }).first()).toBeVisible()
    await use({
      page,
      project: folders.project,
      write: (files) => folders.write(files),
      dispatch: (command, more) => spawnIn(page, folders.project, command, more),
      killHost: async () => {
        await kill()
        // A browser says of itself that it cannot connect.
        trouble.length = 0
      },
    })
    expect(
      trouble.filter((text) => !text.includes('WebSocket connection')),
      'errors in the window',
    ).toEqual([])
  },
})

export { expect } from '@playwright/test'
