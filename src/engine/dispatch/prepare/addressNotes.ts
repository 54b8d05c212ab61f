import { isIP } from 'node:net'
import { parseHostPattern } from '../../../shared/hosts.ts'
import type { Contract } from '../../base/contract.ts'

/** Whether a rule or a pin is for an address or a network of them, and not for a name. */
const isAddress = (rule: string): boolean =>
  isIP((parseHostPattern(rule)?.host ?? rule).replaceAll(/^\[|\]$|\/\d+$/g, '')) !== 0

/** The sandbox has no way to an address: whoever allows one is not to wonder why a program that asks nobody cannot reach it. */
export function addressNotes({ level, outputs }: Pick<Contract, 'level' | 'outputs'>): readonly string[] {
  const named = [...outputs.allow, ...outputs.always, ...Object.keys(outputs.pins)]
  const addresses = [...new Set(named)].filter(isAddress)
  if (level === 0 || addresses.length === 0) return []
  return [
    `${addresses.join(', ')}: reached through the proxy only; for a program that connects by itself pin a name to the address (--allow-host NAME=ADDR:PORT)`,
  ]
}
