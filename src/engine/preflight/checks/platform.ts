import type { CheckResult } from '../../../shared/doctor.ts'
import type { Contract } from '../../base/contract.ts'

const ofHost: Readonly<Record<string, string>> = { darwin: 'mac', linux: 'linux' }
const softwareOfHost: Readonly<Record<string, string>> = { darwin: 'macos', linux: 'linux' }

/** What an agent was to run on. Elsewhere would be another place than the record says. */
export function checkPlatform(
  { platform, software, level }: Pick<Contract, 'platform' | 'software' | 'level'>,
  host: NodeJS.Platform,
): readonly CheckResult[] {
  const here = ofHost[host] ?? host
  const refused = (name: string, why: string): CheckResult => ({
    name,
    ok: false,
    detail: why,
    fix: `Leave it out: it runs on this machine (${here}).`,
  })
  if (platform === 'cloud' || platform === 'hybrid')
    return [refused(`platform ${platform}`, 'no driver for another machine is part of this release')]
  if ((platform === 'mac' || platform === 'linux') && platform !== here)
    return [refused(`platform ${platform}`, `this machine is ${here}`)]
  // A container or a machine of its own brings its own software.
  if (level < 2 && (software === 'macos' || software === 'linux') && software !== softwareOfHost[host])
    return [refused(`software ${software}`, `this machine is ${here}`)]
  return []
}
