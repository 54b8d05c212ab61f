import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, closeSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from './build.mjs'
import { withLock } from './lock.mjs'
import { ordinaryUser } from './ordinaryUser.mjs'
import { projectEnv, root, tool } from './places.mjs'

const here = (name) => join(root, 'scripts', 'workshop', name)
// From the checkout, wherever that is shown.
const reporter = './scripts/workshop/vitestReporter.mjs'
// What is another thing for root: whose namespaces, whose files.
const ofSandbox = ['src/engine/sandbox/', 'test/sandbox/programs.test.ts']
const minutes = (count) => count * 60_000

/** A stage is one check (counted as one test) or a test runner (counted by its own records). */
export const stages = [
  { name: 'format', title: 'format', check: [['prettier', '--check', '--log-level', 'warn', '.']] },
  { name: 'lint', title: 'lint', check: [['oxlint', '--deny-warnings']] },
  {
    name: 'types',
    title: 'types',
    check: [
      ['tsc', '-p', 'tsconfig.json'],
      ['tsc', '-p', 'tsconfig.web.json'],
    ],
  },
  {
    name: 'imports',
    title: 'import directions',
    check: [['depcruise', '--config', '.dependency-cruiser.cjs', 'src']],
  },
  { name: 'deadcode', title: 'dead code', check: [['knip']] },
  {
    name: 'unit',
    title: 'unit tests',
    needsSystem: true,
    timeoutMs: minutes(10),
    tests: ['vitest', 'run', '--project', 'unit', '--reporter', reporter],
  },
  { name: 'build', title: 'build', build: true },
  {
    name: 'slow',
    title: 'tests with real sandboxes',
    needsSystem: true,
    long: true,
    timeoutMs: minutes(50),
    tests: ['vitest', 'run', '--project', 'slow', '--reporter', reporter],
  },
  {
    name: 'ordinary',
    title: 'as an ordinary user',
    needsSystem: true,
    long: true,
    timeoutMs: minutes(10),
    isOrdinary: true,
    // Natively: otherwise its configuration is bundled into the checkout, which is not his.
    tests: ['vitest', 'run', '--configLoader', 'native', '--reporter', reporter, ...ofSandbox],
  },
  {
    name: 'e2e',
    title: 'end to end in a window',
    needsSystem: true,
    long: true,
    timeoutMs: minutes(20),
    tests: ['playwright', 'test', '--reporter', here('playwrightReporter.mjs')],
  },
]

// A runner started in a group of its own, so that a time limit or Ctrl-C ends all it started.
function runGroup([name, ...args], { log, env, timeoutMs, user }) {
  return new Promise((resolve) => {
    const output = openSync(log, 'a')
    const [file, ...rest] = user === undefined ? [tool(name)] : [...user.through, name]
    const child = spawn(file, [...rest, ...args], {
      cwd: root,
      env: user === undefined ? projectEnv(env) : { ...user.env, ...env },
      stdio: ['ignore', output, output],
      detached: true,
    })
    let timedOut = false
    const end = (signal) => {
      try {
        process.kill(-child.pid, signal)
      } catch {
        // Already gone.
      }
    }
    const onSignal = (signal) => {
      end('SIGTERM')
      setTimeout(() => end('SIGKILL'), 3000).unref()
      child.on('close', () => process.exit(signal === 'SIGINT' ? 130 : 143))
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
    const timer = setTimeout(
      () => {
        timedOut = true
        end('SIGKILL')
      },
      timeoutMs ?? minutes(10),
    )
    const done = (code) => {
      clearTimeout(timer)
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
      closeSync(output)
      resolve({ code, timedOut })
    }
    child.on('error', () => done(127))
    child.on('close', (code) => done(code ?? 1))
  })
}

const tail = (text, lines = 60) => text.trimEnd().split('\n').slice(-lines).join('\n')

async function runCheck(command, { records }) {
  const log = join(records, `check-${Math.random().toString(16).slice(2)}.log`)
  const { code, timedOut } = await runGroup(command, { log })
  const message = timedOut ? 'took longer than its time limit' : tail(readFileSync(log, 'utf8'))
  return { where: command.join(' '), name: command[0], outcome: code === 0 ? 'passed' : 'failed', message }
}

async function runBuild() {
  const { code, output } = await withLock('build', build)
  const outcome = code === 0 ? 'passed' : 'failed'
  return { where: 'electron-vite build', name: 'build', outcome, message: tail(output) }
}

function readRecords(file) {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter(Boolean).map((line) => JSON.parse(line))
}

function privateEnv(home, own = () => {}) {
  const folders = { ORANGERY_DATA_DIR: 'data', XDG_DATA_HOME: 'share', XDG_CONFIG_HOME: 'config' }
  const env = {}
  for (const [name, folder] of Object.entries(folders)) {
    env[name] = join(home, folder)
    mkdirSync(env[name], { recursive: true, mode: 0o700 })
    own(env[name])
  }
  return env
}

/** Once a minute, for people and for machines that end what is silent. */
function signOfLife(stage, file) {
  console.log(`${stage.title.padEnd(28)} …       ${readRecords(file).length} done`)
}

async function runTests(stage, { records, home, user }) {
  const file = join(user?.home ?? records, `${stage.name}.ndjson`)
  const log = join(records, `${stage.name}.log`)
  const env = { ...privateEnv(user?.home ?? home, user?.own), ORANGERY_TEST_RECORDS: file }
  const timer = setInterval(() => signOfLife(stage, file), minutes(1))
  const { code, timedOut } = await runGroup(stage.tests, { log, env, user, timeoutMs: stage.timeoutMs })
  clearInterval(timer)
  const found = readRecords(file)
  const isExplained = found.some((record) => record.outcome === 'failed')
  if (timedOut || (code !== 0 && !isExplained)) {
    const why = timedOut ? 'took longer than its time limit' : `ended with ${code}`
    const message = `${why}\n${tail(readFileSync(log, 'utf8'))}`
    found.push({ where: stage.tests[0], name: `(${stage.title})`, outcome: 'failed', message })
  }
  return found
}

function runOrdinary(stage, places) {
  const { reason, ...user } = ordinaryUser(places.home)
  if (reason === undefined) return runTests(stage, { ...places, user })
  return [{ where: stage.tests[0], name: stage.title, outcome: 'skipped', reason }]
}

export async function runStage(stage, places) {
  if (stage.build) return [await runBuild()]
  if (stage.isOrdinary) return runOrdinary(stage, places)
  if (stage.tests) return runTests(stage, places)
  const found = []
  for (const command of stage.check) found.push(await runCheck(command, places))
  return found
}
