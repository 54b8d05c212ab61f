import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { AgentCard } from '../../../shared/card.ts'
import type { CheckResult } from '../../../shared/doctor.ts'
import { minimalEnv, run } from '../../base/process.ts'

const patienceMs = 15_000

/** Accounts the agent needs are signed in, by the command or file its card names. */
export async function checkAuth(card: AgentCard): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = []
  const fix = card.auth?.hint ?? `Sign in to ${card.name} once in a terminal.`
  const name = `signed in to ${card.name}`
  const [program, ...args] = card.auth?.check ?? []
  if (program !== undefined) {
    const env = { ...minimalEnv, HOME: homedir() }
    const result = await run(program, args, { env, timeoutMs: patienceMs }).catch(() => null)
    const ok = result?.code === 0
    results.push({
      name,
      ok,
      detail: ok ? 'yes' : `\`${[program, ...args].join(' ')}\` says no`,
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
