// Draws the PNGs that trays, docks and packages need from the SVGs beside this file: node resources/icons/render.mjs
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright'

const here = (name) => join(import.meta.dirname, name)
const pictures = [
  ...[16, 24, 32, 48].map((size) => ['app-small.svg', size, `app-${size}.png`]),
  ...[64, 128, 256, 512].map((size) => ['app.svg', size, `app-${size}.png`]),
  ...['tray', 'tray-attention', 'trayTemplate'].flatMap((name) => [
    [`${name}.svg`, 16, `${name}.png`],
    [`${name}.svg`, 32, `${name}@2x.png`],
  ]),
]

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] })
const page = await browser.newPage()
for (const [source, size, target] of pictures) {
  const image = Buffer.from(readFileSync(here(source))).toString('base64')
  await page.setViewportSize({ width: size, height: size })
  await page.setContent(
    `<body style="margin:0"><img style="display:block" width="${size}" height="${size}" src="data:image/svg+xml;base64,${image}">`,
  )
  writeFileSync(here(target), await page.screenshot({ omitBackground: true }))
}
await browser.close()
