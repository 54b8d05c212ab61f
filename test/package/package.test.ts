import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '..', '..')
const tool = (name: string) => join(root, 'node_modules', '.bin', name)
const fuseMark = 'dL7pKGdnNz796PbbjQWNKmHXBZaB9tsX'

let base: string
let app: string
let files: string[]

/** A folder in Electron's shape around a program that is none; the fuses are where they are in the real one. */
async function stubElectron(folder: string): Promise<void> {
  await mkdir(join(folder, 'resources'), { recursive: true })
  const fuses = Buffer.concat([
    Buffer.from(`stub${fuseMark}`),
    Buffer.from([1, 9]),
    Buffer.from('0'.repeat(9)),
    Buffer.alloc(64),
  ])
  await writeFile(join(folder, 'electron'), fuses, { mode: 0o755 })
  const { version } = JSON.parse(
    await readFile(join(root, 'node_modules', 'electron', 'package.json'), 'utf8'),
  ) as { version: string }
  await writeFile(join(folder, 'version'), version)
  await writeFile(join(folder, 'LICENSE'), '')
}

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'orangery-package-'))
  await stubElectron(join(base, 'electron'))
  const build = "import('./scripts/workshop/build.mjs').then((workshop) => workshop.ensureBuild())"
  await run(process.execPath, ['-e', build], { cwd: root })
  const out = join(base, 'dist')
  const options = [`-c.electronDist=${join(base, 'electron')}`, `-c.directories.output=${out}`]
  await run(tool('electron-builder'), ['--linux', 'dir', '--publish', 'never', ...options], { cwd: root })
  app = join(out, 'linux-unpacked')
  const listing = await run(tool('asar'), ['list', join(app, 'resources', 'app.asar')], {
    maxBuffer: 1 << 26,
  })
  files = listing.stdout.trim().split('\n')
})
afterAll(() => rm(base, { recursive: true, force: true }))

test('the package holds every program, the window and what they read', () => {
  for (const name of ['index.js', 'cli.js', 'supervisor.js', 'relay.js'])
    expect(files).toContain(`/out/main/${name}`)
  expect(files).toContain('/out/preload/index.cjs')
  expect(files).toContain('/out/renderer/index.html')
  expect(files.some((file) => file.startsWith('/resources/agents/'))).toBe(true)
  expect(files).toContain('/resources/icons/tray.png')
  expect(existsSync(join(app, 'resources', 'bin', 'orangery'))).toBe(true)
})

test('native modules lie beside the archive, and only those of this system', async () => {
  const unpacked = join(app, 'resources', 'app.asar.unpacked', 'node_modules')
  expect(await readdir(join(unpacked, 'better-sqlite3', 'prebuilds'))).toEqual([`linux-${process.arch}.node`])
  const native = files.filter((file) => file.endsWith('.node'))
  expect(native.map((file) => basename(file)).sort()).toEqual([`linux-${process.arch}.node`, 'pty.node'])
  for (const file of native) expect(existsSync(join(unpacked, file.replace('/node_modules/', '')))).toBe(true)
})

test('neither sources nor other programs are shipped', () => {
  const stray = files.filter((file) =>
    /sqlite3\.c$|^\/src\/|^\/test|^\/e2e|\/node_modules\/node\/|\/electron\/|\.map$|\/\.env/.test(file),
  )
  expect(stray).toEqual([])
})

test('the fuses are set as decided', async () => {
  const program = await readFile(join(app, 'orangery'), 'latin1')
  const at = program.indexOf(fuseMark) + fuseMark.length + 2
  const [runAsNode, cookies, nodeOptions, inspect, integrity, onlyAsar, , fileProtocol] = program.slice(
    at,
    at + 8,
  )
  expect({ runAsNode, cookies, nodeOptions, inspect, integrity, onlyAsar, fileProtocol }).toEqual({
    runAsNode: '1',
    cookies: '1',
    nodeOptions: '0',
    inspect: '0',
    integrity: '1',
    onlyAsar: '1',
    fileProtocol: '0',
  })
})

test('nothing that is needed at run time was left out', async () => {
  const extracted = join(base, 'extracted')
  await run(tool('asar'), ['extract', join(app, 'resources', 'app.asar'), extracted])
  const project = join(base, 'project')
  await mkdir(project)
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: base,
    ORANGERY_DATA_DIR: join(base, 'data'),
    XDG_RUNTIME_DIR: base,
  }
  const cli = join(extracted, 'out', 'main', 'cli.js')
  const { stdout } = await run(process.execPath, [cli, 'doctor', '--json'], { env, cwd: project })
  expect(JSON.parse(stdout)).toMatchObject({ platform: 'linux' })
  await run(process.execPath, [cli, 'run', '--', 'sh', '-c', 'echo packed > made.txt'], { env, cwd: project })
  const list = await run(process.execPath, [cli, 'changeset', 'list', '--json'], { env, cwd: project })
  expect(JSON.parse(list.stdout)).toMatchObject([{ state: 'review', files: 1 }])
})
