import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { runQuietly } from './command.mjs'
import { withLock } from './lock.mjs'
import { projectNode, root } from './places.mjs'
import { say, SetupError } from './say.mjs'

function readLock(...path) {
  try {
    return JSON.parse(readFileSync(join(root, ...path), 'utf8')).packages ?? {}
  } catch {
    return undefined
  }
}

/**
 * npm writes `node_modules/.package-lock.json` last, so its absence also means an install that was cut
 * short. What is there must have the versions the lockfile names; optional packages may be missing.
 */
function isInstalled() {
  const wanted = readLock('package-lock.json')
  const installed = readLock('node_modules', '.package-lock.json')
  if (wanted === undefined || installed === undefined) return false
  const entries = Object.entries(wanted).filter(([path]) => path !== '')
  return entries.every(([path, { version, optional, devOptional, peer }]) => {
    const found = installed[path]
    if (found === undefined) return optional === true || devOptional === true || peer === true
    return found.version === version
  })
}

function npmCommand() {
  const script = process.env.npm_execpath
  if (script?.endsWith('.js')) return [process.execPath, script]
  const beside = join(dirname(process.execPath), 'npm')
  return process.platform === 'win32' ? ['npm.cmd'] : [process.env.PATH ? 'npm' : beside]
}

async function npm(command, hint) {
  const [file, ...before] = npmCommand()
  const args = [...before, ...command, '--no-audit', '--no-fund', '--no-progress', '--loglevel=error']
  const { code, output } = await runQuietly(file, args, { cwd: root })
  if (code === 0) return
  const lines = output.split('\n').map((line) => line.replace(/^npm (error|ERR!|notice)\s*/, '').trim())
  const why = lines.find((line) => line !== '' && !/^(code|errno|syscall|path) /.test(line))
  throw new SetupError(`npm ${command[0]}: ${why ?? `ended with ${code}`}`, hint)
}

export async function ensurePackages() {
  if (isInstalled() && projectNode() !== undefined) return
  await withLock('packages', async () => {
    if (isInstalled() && projectNode() !== undefined) return
    say('installing npm packages (about a minute, once)')
    if (!isInstalled()) {
      await npm(
        ['ci'],
        'Check that this machine reaches its npm registry, then run `npm ci` to see everything npm says.',
      )
    }
    // The one package whose install script we want: it fetches the Node for this machine.
    await npm(
      ['rebuild', 'node', '--ignore-scripts=false'],
      'Check that this machine reaches its npm registry, or install Node 24.',
    )
    if (projectNode() === undefined) {
      throw new SetupError(
        'npm rebuild: the package `node` brought no binary, and this machine has no Node 24',
        'Run `npm rebuild node --ignore-scripts=false` to see everything npm says, or install Node 24.',
      )
    }
  })
}
