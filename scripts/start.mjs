// `npm start`: the desktop window where Electron can be had, the same window in the browser otherwise.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureBuild } from './workshop/build.mjs'
import { runQuietly } from './workshop/command.mjs'
import { ensurePackages } from './workshop/packages.mjs'
import { projectEnv, projectNode, root } from './workshop/places.mjs'
import { main, say } from './workshop/say.mjs'
import { ensureSystemPackages } from './workshop/system.mjs'

const electronFolder = join(root, 'node_modules', 'electron')
const programName = process.platform === 'darwin' ? 'Electron.app/Contents/MacOS/Electron' : 'electron'

function electronProgram() {
  const override = process.env.ELECTRON_OVERRIDE_DIST_PATH
  if (override !== undefined) {
    const program = join(override, programName)
    return existsSync(program) ? program : undefined
  }
  const pathFile = join(electronFolder, 'path.txt')
  if (!existsSync(pathFile)) return undefined
  const program = join(electronFolder, 'dist', readFileSync(pathFile, 'utf8').trim())
  return existsSync(program) ? program : undefined
}

async function findElectron() {
  const there = electronProgram()
  if (there !== undefined || process.env.ELECTRON_OVERRIDE_DIST_PATH !== undefined) return there
  // Fails within a second where there is no way to the download.
  await runQuietly(projectNode(), [join(electronFolder, 'install.js')], { cwd: root, timeout: 300_000 })
  return electronProgram()
}

const hasDesktop = () =>
  process.platform === 'darwin' || Boolean(process.env.DISPLAY || process.env.WAYLAND_DISPLAY)

/** Runs a program on our own terminal until it ends; signals we get are passed on. */
function runAttached(file, args, env, more = []) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { cwd: root, stdio: ['inherit', 'inherit', 'inherit', ...more], env })
    child.channel?.unref()
    const passOn = (signal) => child.kill(signal)
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, passOn)
    child.on('error', reject)
    child.on('close', (code, signal) => resolve(code ?? (signal === 'SIGINT' ? 130 : 143)))
  })
}

await main(async () => {
  await ensurePackages()
  await ensureSystemPackages('start')
  await ensureBuild()
  const args = process.argv.slice(2)
  const electron = hasDesktop() ? await findElectron() : undefined
  if (electron !== undefined) {
    // Chromium's own sandbox refuses to run for root; ours does not depend on it.
    const unsandboxed = process.platform === 'linux' && process.getuid?.() === 0 ? ['--no-sandbox'] : []
    const code = await runAttached(electron, [...unsandboxed, root, ...args], projectEnv())
    if (code !== 127) return code
    say('Electron cannot start here (libraries are missing): serving the same window in the browser')
  } else if (hasDesktop()) {
    say('the Electron binary cannot be had here: serving the same window in the browser')
  } else {
    say('there is no desktop here: serving the same window in the browser')
  }
  const open = hasDesktop() ? ['--open'] : []
  const serve = [join(root, 'out/main/cli.js'), 'serve', ...open, ...args]
  // The channel carries nothing: it closes when we are killed, and the server ends.
  return runAttached(projectNode(), serve, projectEnv(), ['ipc'])
})
