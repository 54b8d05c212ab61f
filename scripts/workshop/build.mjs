import { existsSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runQuietly } from './command.mjs'
import { withLock } from './lock.mjs'
import { projectEnv, root, tool } from './places.mjs'
import { say, SetupError } from './say.mjs'

const sources = ['src', 'resources', 'electron.vite.config.ts', 'package.json', 'package-lock.json']
const stamp = join(root, 'out', '.built')
const products = ['out/main/cli.js', 'out/main/index.js', 'out/renderer/index.html']

/** The newest change below a path; a folder's own time tells of files that were removed. */
function newest(path) {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat === undefined) return 0
  if (!stat.isDirectory()) return stat.mtimeMs
  const within = readdirSync(path).map((name) => (name.endsWith('.test.ts') ? 0 : newest(join(path, name))))
  return Math.max(stat.mtimeMs, ...within)
}

function isBuilt() {
  const built = statSync(stamp, { throwIfNoEntry: false })
  if (built === undefined || !products.every((path) => existsSync(join(root, path)))) return false
  return sources.every((path) => newest(join(root, path)) < built.mtimeMs)
}

export async function build() {
  const started = new Date()
  const result = await runQuietly(tool('electron-vite'), ['build'], { cwd: root, env: projectEnv() })
  if (result.code === 0) {
    mkdirSync(join(root, 'out'), { recursive: true })
    writeFileSync(stamp, '')
    // What changed while the build ran is newer than the build.
    utimesSync(stamp, started, started)
  }
  return result
}

export async function ensureBuild() {
  if (isBuilt()) return
  await withLock('build', async () => {
    if (isBuilt()) return
    say('building (a few seconds)')
    const { code, output } = await build()
    if (code !== 0) {
      const lines = output.trim().split('\n')
      const at = lines.findIndex((line) => line.includes('error during build'))
      const why = lines[at + 1] ?? ''
      throw new SetupError(`build: ${why.trim()}`, 'Run `npm run build` to see everything.')
    }
  })
}
