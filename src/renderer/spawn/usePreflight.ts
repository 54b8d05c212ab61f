import { useEffect, useState } from 'react'
import type { Input } from '../../shared/api.ts'
import type { PreflightReport } from '../../shared/doctor.ts'
import { useClient } from '../client/context.tsx'

type State = { readonly report: PreflightReport | undefined; readonly busy: boolean }

/** Checks as one fills in, a moment after the last key, so that the answer is there before the button. */
export function usePreflight(input: Input<'dispatch.preflight'> | null): State {
  const client = useClient()
  const [state, setState] = useState<State>({ report: undefined, busy: false })
  const asked = input === null ? null : JSON.stringify(input)
  useEffect(() => {
    setState({ report: undefined, busy: asked !== null })
    if (asked === null) return undefined
    let current = true
    const timer = setTimeout(() => {
      client.call('dispatch.preflight', JSON.parse(asked) as Input<'dispatch.preflight'>).then(
        (report) => current && setState({ report, busy: false }),
        (error: Error & { hint?: string }) =>
          current &&
          setState({
            report: {
              ok: false,
              checks: [{ name: 'request', ok: false, detail: error.message, fix: error.hint ?? null }],
            },
            busy: false,
          }),
      )
    }, 350)
    return () => {
      current = false
      clearTimeout(timer)
    }
  }, [asked, client])
  return state
}
