import type { Socket } from 'node:net'
import { showAll } from '../../shared/visible.ts'
import type { Peer } from '../base/sandbox.ts'
import { Denied } from './dial/failures.ts'

/** Says a line to the program at the other end. */
export type Tell = (peer: Peer, line: string) => Promise<void>
/** Says why, where a program is denied something; whatever else went wrong is its own to show. */
export type TellWhy = (to: Socket | Peer, error: unknown) => Promise<void>

/** A denial that nobody could be told of in this time goes out untold: it is to come at once. */
const patienceMs = 1000

/**
 * Most programs show a number of what a proxy says, and of a name that it does not exist. Before they get that they
 * are told beside it, so that the two stand together.
 */
export const tellWith =
  (tell: Tell | undefined): TellWhy =>
  async (to, error) => {
    const peer = 'protocol' in to ? to : peerOf(to)
    if (tell === undefined || peer === null || !(error instanceof Denied)) return
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, patienceMs)
    const line = showAll(`orangery: ${error.what} was not reached: ${error.why}`)
    await Promise.race([tell(peer, line).catch(() => {}), late])
    clearTimeout(timer)
  }

/** Null where the connection came by the broker's own socket: it does not say whose it is. */
function peerOf({ remotePort, localPort }: Socket): Peer | null {
  return remotePort === undefined || localPort === undefined
    ? null
    : { protocol: 'tcp', port: remotePort, toPort: localPort }
}
