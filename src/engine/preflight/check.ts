import type { CheckResult, PreflightReport } from '../../shared/doctor.ts'

/** One question asked before anything starts. It answers, it never throws on a "no". */
export type Check = () => Promise<CheckResult | readonly CheckResult[]>

/** Every check runs, side by side; one failure fails the whole. A check that breaks has failed. */
export async function runChecks(checks: Readonly<Record<string, Check>>): Promise<PreflightReport> {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]): Promise<readonly CheckResult[]> => {
      try {
        const answer = await check()
        return Array.isArray(answer) ? answer : [answer as CheckResult]
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        const fix =
          error instanceof Error && 'hint' in error && typeof error.hint === 'string' ? error.hint : null
        return [{ name, ok: false, detail: why, fix }]
      }
    }),
  )
  const flat = results.flat()
  return { ok: flat.every((result) => result.ok), checks: flat }
}
