import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../src/engine/base/process.ts'
import type { Judgement } from './judge.ts'
import { prepare } from './prepared.ts'

export type Who = 'root' | 'ordinary user'

export const us: Who = process.getuid?.() === 0 ? 'root' : 'ordinary user'

/** Many times what it takes on a quiet machine. */
export const patienceMs = 600_000

const ordinaryId = 1000
const become = [`--reuid=${ordinaryId}`, `--regid=${ordinaryId}`, '--clear-groups', '--']

/** Whether we can become an ordinary user who can read this checkout and its Node. */
export async function canRunAs(who: Who): Promise<boolean> {
  if (who === us) return true
  if (us !== 'root') return false
  const tried = await run('setpriv', [
    ...become,
    process.execPath,
    '-e',
    `require('fs').accessSync('${import.meta.filename}')`,
  ])
  return tried.code === 0
}

/** Runs the suite, or the named cases, in a process of that user, with a home of its own. */
export async function runSuiteAs(who: Who, ids: readonly string[] = []): Promise<readonly Judgement[]> {
  const home = await mkdtemp(join(tmpdir(), 'orangery-home-'))
  try {
    if (who !== us) await chown(home, ordinaryId, ordinaryId)
    const node = [
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      join(import.meta.dirname, 'run.ts'),
      ...ids,
    ]
    const [file = '', ...args] = who === us ? node : ['setpriv', ...become, ...node]
    await using stage = us === 'root' && who !== us ? await prepare() : null
    const result = await run(file, args, {
      env: {
        ...stage?.env,
        PATH: process.env['PATH'] ?? '',
        HOME: home,
        LANG: 'C.UTF-8',
      },
      timeoutMs: patienceMs,
    })
    if (result.code !== 0) throw new Error(`the suite as ${who}: ${result.stderr.toString()}`)
    return result.stdout
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Judgement)
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

/** As above; what a busy machine kept from its end is tried once more by itself. A breakout is one at once. */
export async function judgeSuiteAs(who: Who): Promise<readonly Judgement[]> {
  const judgements = await runSuiteAs(who)
  const unclear = judgements.filter(({ verdict }) => verdict === 'INCONCLUSIVE').map(({ id }) => id)
  if (unclear.length === 0) return judgements
  const again = new Map((await runSuiteAs(who, unclear)).map((judgement) => [judgement.id, judgement]))
  return judgements.map((judgement) => again.get(judgement.id) ?? judgement)
}
