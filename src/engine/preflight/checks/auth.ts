import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { AgentCard } from '../../../shared/card.ts'
import type { CheckResult } from '../../../shared/doctor.ts'
import { minimalEnv, run } from '../../base/process.ts'

const patienceMs = 15_000

/** Why the command did not say yes; null where it did. */
async function askedInVain(
  [program = '', ...args]: readonly string[],
  timeoutMs: number,
): Promise<string | null> {
  const began = performance.now()
  const env = { ...minimalEnv, HOME: homedir() }
  const result = await run(program, args, { env, timeoutMs }).catch((error: NodeJS.ErrnoException) => error)
  if (result instanceof Error)
    return `cannot be run (${result.code === 'ENOENT' ? 'it is not installed' : result.message})`
  if (result.code === 0) return null
  if (result.code !== null) return 'says no'
  return performance.now() - began < timeoutMs
    ? `was ended by ${result.signal ?? 'the system'}`
    : `gave no answer within ${timeoutMs / 1000} s`
}

/** Accounts the agent needs are signed in, by the command or file its card names. */
export async function checkAuth(card: AgentCard, timeoutMs = patienceMs): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = []
  const fix = card.auth?.hint ?? `Sign in to ${card.name} once in a terminal.`
  const name = `signed in to ${card.name}`
  const check = card.auth?.check ?? []
  if (check.length > 0) {
    const why = await askedInVain(check, timeoutMs)
    const ok = why === null
    results.push({
      name,
      ok,
      detail: ok ? 'yes' : `\`${check.join(' ')}\` ${why}`,
      fix: ok ? null : fix,
    })
  }
  if (card.auth?.file !== undefined) {
    const path = join(homedir(), card.auth.file.replace(/^~\//, ''))
    const ok = await access(path).then(
      () => true,
      () => false,
    )
    results.push({ name, ok, detail: ok ? 'yes' : `${path} is missing`, fix: ok ? null : fix })
  }
  return results
}
