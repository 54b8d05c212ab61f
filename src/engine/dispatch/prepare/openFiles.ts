import type { CheckResult } from '../../../shared/doctor.ts'
import type { ContractOutputs } from '../../base/contract.ts'
import { mostOpenFiles } from '../../base/openFiles.ts'
import { listenersFor, parseOutputs } from '../../egress/index.ts'

/** For everything but the listeners: the sandbox, the record, and a good hundred connections with two ends each. */
const othersNeed = 512
/** So few fit into every limit. */
const fewListeners = 256

/**
 * Every allowed host is listened for. Without descriptors left a connection is dropped before anybody could say why, and
 * nothing of it is on record: better not to start.
 */
export async function checkOpenFiles(
  { allow, deny, pins, mode }: Pick<ContractOutputs, 'allow' | 'deny' | 'pins' | 'mode'>,
  most: () => Promise<number | null> = mostOpenFiles,
): Promise<readonly CheckResult[]> {
  const listeners = listenersFor(parseOutputs({ mode, allow: [...allow], deny: [...deny], pins }))
  if (listeners <= fewListeners) return []
  const limit = await most()
  const needed = listeners + othersNeed
  if (limit === null || limit >= needed) return []
  const hosts = new Set([...allow, ...Object.keys(pins)]).size
  return [
    {
      name: 'outputs',
      ok: false,
      detail: `${hosts} allowed hosts take ${needed} open files, and ${limit} are the most a process may have here`,
      fix: `Raise the hard limit (ulimit -Hn, LimitNOFILE=) to ${needed} or more, or allow fewer hosts: *.example.org is one.`,
    },
  ]
}
