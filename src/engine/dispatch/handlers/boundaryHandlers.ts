import { resolve } from 'node:path'
import type { Handlers } from '../../../shared/api.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import type { DispatchId } from '../../../shared/ids.ts'
import { refuseOwnPlaces } from '../../egress/index.ts'
import {
  Boundaries,
  distrustProject,
  loadConfig,
  trustProject,
  trustQuestion,
  untrustedQuestion,
} from '../../policy/index.ts'
import { readContract } from '../prepare/contractFile.ts'
import { withChoices } from './narrowedFiles.ts'
import type { Parts } from '../parts.ts'
import { hostsInFull, takenInFull } from '../prepare/presets.ts'
import { speakTo } from '../supervise/speak.ts'

/** The escalation pipeline as a host has it: what it decides, the dispatch's supervisor carries out. */
export function boundariesOf(parts: Parts): Boundaries {
  const { store, configDir } = parts
  return new Boundaries({
    records: store.boundaries,
    userConfigDir: configDir,
    apply: (id, { by, why }) => speakTo(parts, id, { op: 'boundary', by, why }),
    contractOf: (id) => readContract(parts, id),
    tell: (id, event) => speakTo(parts, id, { op: 'tell', event }),
    onChange: (listener) => store.onChange(listener),
  })
}

/** At level 0 nothing stands around the agent: nothing can be given to it, and nothing taken from it. */
function refuseUnconfined(parts: Parts, id: DispatchId): void {
  if (isConfined(parts, id)) return
  throw new OrangeryError(
    'boundary.no_sandbox',
    `dispatch ${id}: at level 0 every host and file of yours is in its reach, whatever its boundary`,
    {
      kind: 'refused',
      hint: 'End it with `orangery dispatch kill`, and start it at level 1 or above.',
    },
  )
}

const isConfined = (parts: Parts, id: DispatchId): boolean => parts.store.dispatches.get(id).level !== 0

type BoundaryHandlers = Pick<Handlers, Extract<keyof Handlers, `boundary.${string}` | `config.${string}`>>

export function boundaryHandlers(parts: Parts, find: (reference: string) => DispatchId): BoundaryHandlers {
  const boundaries = boundariesOf(parts)
  const userConfigDir = parts.configDir
  const absolute = (roots: readonly string[]) => roots.map((root) => resolve(root))
  const show = async (id: DispatchId) => {
    const state = boundaries.show(id)
    const history = await withChoices(parts, id, state.history)
    const shown = { ...state, history, enforced: isConfined(parts, id) }
    // The supervisor writes it down once the sandbox has followed.
    const { boundary } = parts.store.dispatches.get(id)
    const isOn = boundary === null || boundary === shown.level || !shown.running
    return isOn ? shown : { ...shown, in_effect: boundary }
  }
  const only = (request: string | undefined) => (request === undefined ? null : [request])
  return {
    'boundary.show': async ({ id }) => show(find(id)),
    'boundary.request': async ({ id, to, hosts, reason, source, wait_s: seconds }, { by }) => {
      const dispatch = find(id)
      refuseUnconfined(parts, dispatch)
      const wanted = source === 'user' ? await hostsInFull(parts, dispatch, hosts) : hosts
      if (wanted.length > 0) refuseOwnPlaces(wanted, (await readContract(parts, dispatch)).outputs.pins)
      const filed = await boundaries.request(dispatch, { to, hosts: wanted, source, by, why: reason })
      if (filed.status === 'denied' && filed.answer?.way === 'policy') {
        throw new OrangeryError('policy.boundary_too_wide', `boundary ${to}: ${filed.answer.message}`, {
          kind: 'refused',
          hint: 'Ask for less (`boundary request ID readonly --host HOST` leaves files as they are), change what the config says (sandboxMaximumBoundary, deniedHosts), or start it anew with what it needs.',
        })
      }
      if (filed.status !== 'open' || seconds === 0) return filed
      return boundaries.waitFor(dispatch, filed.id, AbortSignal.timeout(seconds * 1000))
    },
    'boundary.approve': async ({ id, request, scope, expires = null, roots, message, shown }, { by }) => {
      const covers = roots === undefined ? null : absolute(roots)
      const answering = { requests: only(request), by, message, scope, expires, covers, shown: shown ?? null }
      return [...(await boundaries.approve(find(id), answering))]
    },
    'boundary.deny': async ({ id, request, message }, { by }) => [
      ...(await boundaries.deny(find(id), { requests: only(request), by, message })),
    ],
    'boundary.narrow': async ({ id, to, hosts: named, reason }, { by }) => {
      const dispatch = find(id)
      refuseUnconfined(parts, dispatch)
      const hosts = await takenInFull(parts, dispatch, named)
      const level = to === undefined ? {} : { to }
      await boundaries.narrow(dispatch, { ...level, hosts, by, why: reason, way: 'narrowed' })
      return show(dispatch)
    },
    'boundary.inbox': async () => [...boundaries.inbox()],
    'boundary.approvals': async ({ roots }) => {
      const { saved, tasks } = await boundaries.approvals(absolute(roots))
      return { saved: [...saved], tasks: [...tasks] }
    },
    'boundary.revoke': async ({ approval, roots }) => ({
      removed: [...(await boundaries.revoke(approval, absolute(roots)))],
    }),
    'config.show': ({ roots }) => loadConfig({ userConfigDir, roots: absolute(roots) }),
    'config.question': ({ root }) => trustQuestion(userConfigDir, resolve(root)),
    'config.trust': async ({ root, sha256 }, { by }) => {
      const folder = resolve(root)
      if (sha256 === null) {
        await distrustProject(userConfigDir, folder)
        return untrustedQuestion(userConfigDir, folder)
      }
      await trustProject(userConfigDir, folder, { sha256, by, at: new Date() })
      return trustQuestion(userConfigDir, folder)
    },
  }
}
