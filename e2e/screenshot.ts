import { execFileSync, spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from '@playwright/test'
import { base, result } from './demo/project.ts'

/**
 * The picture in the README, of the real window on real dispatches: `node e2e/screenshot.ts FOLDER`, after
 * `npm run build`. FOLDER is made, and holds a person's projects and records; its path is in the picture.
 */
const folder = process.argv[2]
if (folder === undefined)
  throw new Error('name a folder for the projects, as in: node e2e/screenshot.ts /home/ada')
const root = resolve(import.meta.dirname, '..')
const node = join(root, 'node_modules', '.bin', 'node')
const cli = join(root, 'out', 'main', 'cli.js')
const own = (...names: string[]) => join(folder, ...names)
const env = {
  PATH: process.env['PATH'] ?? '',
  LANG: 'C.UTF-8',
  HOME: folder,
  ORANGERY_DATA_DIR: own('.local', 'share', 'orangery'),
  XDG_CONFIG_HOME: own('.config'),
  XDG_RUNTIME_DIR: own('.run'),
}

type Content = Readonly<Record<string, string | null>>
async function write(project: string, content: Content): Promise<void> {
  for (const [path, text] of Object.entries(content)) {
    if (text === null) continue
    await mkdir(dirname(own(project, path)), { recursive: true })
    await writeFile(own(project, path), text)
  }
}
const orangery = (...args: string[]) => execFileSync(node, [cli, ...args], { env, encoding: 'utf8' }).trim()
const shell = (project: string, name: string, script: string, ...options: string[]) => {
  try {
    orangery('run', '-q', '--dir', own(project), '--name', name, ...options, '--', 'sh', '-c', script)
  } catch {
    // Some are there to fail.
  }
}

for (const name of ['.run', '.config']) await mkdir(own(name), { recursive: true, mode: 0o700 })
await write('shop', { ...base, '.gitignore': 'node_modules/\n' })
await write('importer', { 'feed.ts': 'export const feed = []\n' })
await write('site', { 'index.html': '<h1>Citrus</h1>\n' })
execFileSync('git', ['-C', own('shop'), 'init', '-q'], { env })

// What the agent does, in a language every machine speaks: it writes the files it was asked for.
const edits = Object.entries(result).filter(([path, text]) => text !== (base as Content)[path])
const agent = `const fs = require('fs'), path = require('path')
for (const [name, text] of ${JSON.stringify(edits)}) {
  if (text === null) fs.rmSync(name)
  else { fs.mkdirSync(path.dirname(name), { recursive: true }); fs.writeFileSync(name, text) }
}
for (let at = 0; at < 34; at++) {
  fs.mkdirSync('node_modules/left-' + at, { recursive: true })
  fs.writeFileSync('node_modules/left-' + at + '/index.js', 'module.exports = ' + at)
}
console.log('Coupons work in the cart now; 3 tests pass.')`

shell('site', 'Bump dependencies', 'echo "npm error: no such version"; exit 1')
shell('site', 'Compress the images', 'true')
shell('importer', 'Try the new bundler', 'echo "export {}" >> feed.ts')
shell('shop', 'Write the changelog', 'echo "# Changes" > CHANGELOG.md')
for (const row of JSON.parse(orangery('dispatch', 'list', '--json')) as { id: string; name: string }[]) {
  if (row.name === 'Write the changelog') orangery('changeset', 'apply', row.id, '--all')
  if (row.name === 'Try the new bundler') orangery('changeset', 'abandon', row.id)
}
shell('importer', 'Read the feed as a stream', 'echo "export const feed = stream()" > feed.ts')
orangery(
  'run',
  '-q',
  '--dir',
  own('shop'),
  '--name',
  'Make coupons work in the cart',
  '--',
  'node',
  '-e',
  agent,
)
const list = JSON.parse(orangery('dispatch', 'list', '--json')) as { id: string; name: string }[]
const coupons = list.find((row) => row.name.startsWith('Make coupons'))?.id ?? ''
const running = orangery(
  'dispatch',
  'spawn',
  '--agent=command',
  `--dir=${own('site')}`,
  '--name=Port the pages to components',
  '--',
  'sh',
  '-c',
  'echo "<nav></nav>" >> index.html; sleep 600',
)

const host = spawn(node, [cli, 'serve', '--json'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
})
try {
  let url = ''
  for await (const line of createInterface({ input: host.stdout })) {
    url = (JSON.parse(line) as { url: string }).url
    break
  }
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage()
  await page.goto(url)
  await page.locator(`[data-dispatch="${coupons}"]`).click()
  for (const path of ['README.md', 'src/coupons.ts']) {
    await page.locator(`[data-file="${path}"]`).click()
    await page.locator(`[data-file-header="${path}"]`).getByRole('button', { name: 'Approve file' }).click()
  }
  await page.locator('[data-file="src/cart.ts"]').click()
  await page.locator('[data-file-header="src/cart.ts"]').waitFor()
  for (const [theme, name] of [
    ['light', 'screenshot'],
    ['dark', 'screenshot-dark'],
  ] as const) {
    await page.emulateMedia({ colorScheme: theme })
    // Colouring is done elsewhere and comes when it comes.
    await page.waitForTimeout(4_000)
    await page.screenshot({ path: join(root, 'docs', `${name}.png`) })
  }
} finally {
  await browser.close()
  host.kill('SIGTERM')
  orangery('dispatch', 'kill', running)
}
