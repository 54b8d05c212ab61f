import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test as base, type Page } from '@playwright/test'
import { serve } from '../src/serve/index.ts'
import { makeDemo, type Demo } from './demo/handlers.ts'

export type DemoHouse = Demo & {
  readonly page: Page
  idOf(name: string): Promise<string>
  /** Goes to a place in the window, as in `#/computer/storage`. */
  go(place: string): Promise<void>
}

/** Screens that a real engine reaches only with agents and hours, on canned answers behind the real host. */
export const test = base.extend<{ demo: DemoHouse }>({
  demo: async ({ page }, use) => {
    const dataDir = await mkdtemp(join(tmpdir(), 'orangery-demo-'))
    const demo = await makeDemo(dataDir)
    const serving = await serve({ engine: demo })
    await page.goto(serving.url)
    await expect(page.getByRole('button', { name: 'New dispatch' }).first()).toBeVisible()
    const rows = await demo.handlers['dispatch.list']({ limit: 100, waiting: false }, { by: 'test' })
    const idOf = async (name: string) => rows.find((row) => row.name?.startsWith(name))?.id ?? ''
    const go = async (place: string) => {
      await page.goto(`${new URL(page.url()).origin}/${place}`)
    }
    await use({ ...demo, page, idOf, go })
    await serving.close()
    await rm(dataDir, { recursive: true, force: true })
  },
})

export { expect } from '@playwright/test'
