import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../shared/api.ts'
import { isTerminal, type DispatchDetail, type DispatchStatus } from '../../shared/dispatch.ts'
import { exitCodes } from '../../shared/errors.ts'

const codeOfStatus: Readonly<Partial<Record<DispatchStatus, number>>> = {
  timeout: 124,
  preflight_failed: exitCodes.preflight,
}
/** For a dispatch that never got a code of its own. */
const codeWithoutOwn: Readonly<Partial<Record<DispatchStatus, number>>> = {
  completed: 0,
  cancelled: 143,
}

/** The command's own code, 128+n for signal n, 124 for our time limit. */
export function exitCodeOf({ status, exit_code }: Pick<DispatchDetail, 'status' | 'exit_code'>): number {
  return codeOfStatus[status] ?? exit_code ?? codeWithoutOwn[status] ?? exitCodes.internal
}

/** Follows the event log to its end, then asks; asks again where the log ended before the record did. */
export async function waitUntilEnded(client: Client, id: string): Promise<DispatchDetail> {
  let detail = await client.call('dispatch.get', { id })
  while (!isTerminal(detail.status)) {
    for await (const { event } of client.open('dispatch.events', { id: detail.id, follow: true })) {
      if (event.type === 'DispatchEnded') break
    }
    detail = await client.call('dispatch.get', { id: detail.id })
    if (!isTerminal(detail.status)) await sleep(100)
  }
  return detail
}
