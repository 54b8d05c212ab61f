import { constants } from 'node:fs'
import { access, realpath } from 'node:fs/promises'
import { isAbsolute, join, relative, resolve } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'
import { findKeyPlaces, reachableHomes, realHomes } from '../../base/homes.ts'
import { doorPath, type SandboxRequest } from '../../base/sandbox.ts'
import { agentHome } from './etc.ts'
import { systemCandidates } from './systemView.ts'
import { isInside } from './view.ts'

// A grant above one of these would cover what every sandbox has of its own.
const ownPlaces = [agentHome, '/proc', '/dev', '/dev/shm', '/tmp', '/var', '/var/tmp', '/var/run', doorPath]
// Below these is not what somebody keeps there but the running kernel, with the processes of the host, their environment
// and their files. (escape: grant-host-processes)
const kernelPlaces = ['/proc', '/sys', '/dev']

const real = (path: string): Promise<string | null> => realpath(path).catch(() => null)

/** What is wrong with what the agent's card grants to read: each is found before anything is made. */
export async function checkGrants(
  { grants, secretDirs, level }: SandboxRequest,
  known?: readonly string[],
): Promise<readonly CheckResult[]> {
  // There the agent reads what the user reads.
  if (level === 0 || grants.length === 0) return []
  const homes = known ?? (await reachableHomes())
  const [secrets, own, named] = await Promise.all([
    Promise.all(secretDirs.map(real)),
    realHomes(homes),
    Promise.all(grants.map(real)),
  ])
  const keyPlaces = findKeyPlaces(own)
  const unnamed = keyPlaces.filter((folder) => !named.includes(folder.real))
  // The home itself may be known by a link.
  const spelled = (grant: string) => [
    resolve(grant),
    ...homes.flatMap((home, index) =>
      isInside(resolve(grant), home) ? [join(own[index] ?? home, relative(home, resolve(grant)))] : [],
    ),
  ]
  const findFault = async (grant: string): Promise<string | null> => {
    if (!isAbsolute(grant)) return 'is no absolute path'
    const path = await real(grant)
    if (path === null) return 'is not there'
    const canRead = await access(path, constants.R_OK).then(
      () => true,
      () => false,
    )
    if (!canRead) return 'cannot be read by you either'
    // By whatever name it is granted. (escape: grant-data-dir)
    const places = [path, grant]
    const secret = secrets.find(
      (folder) => folder !== null && (isInside(folder, path) || isInside(path, folder)),
    )
    if (secret != null) return `would show ${secret}, which is Orangery's own`
    if (own.some((home) => isInside(home, path))) return 'holds your whole home, secrets and all'
    // Not what lies in one: who names that means it. (escape: grant-above-keys)
    const isAbove = (place: string) => place !== path && isInside(place, path)
    const keys = unnamed.find((folder) => isAbove(folder.path) || isAbove(folder.real))
    if (keys !== undefined)
      return `contains ${keys.path}, where keys and tokens are kept, and nobody named that`
    // A link may come to lead there long after somebody has named it. (escape: grant-link-to-keys)
    const within = keyPlaces.find((folder) => isInside(path, folder.real))
    if (
      within !== undefined &&
      !spelled(grant).some((name) => isInside(name, within.path) || isInside(name, within.real))
    )
      return `leads to ${within.path}, where keys and tokens are kept, by another name`
    const covered = ownPlaces.find((place) => places.some((each) => isInside(place, each)))
    if (covered !== undefined) return `would cover ${covered} of the sandbox`
    const kernel = kernelPlaces.find((place) => places.some((each) => isInside(each, place)))
    if (kernel !== undefined) return `lies in ${kernel}, which is the host's kernel, devices and processes`
    const isSystem = systemCandidates.some((place) => places.includes(place))
    return isSystem ? 'is shown already, but for what other users may not read: name that' : null
  }
  const faults = await Promise.all(grants.map(findFault))
  return grants.flatMap((grant, index): readonly CheckResult[] => {
    const fault = faults[index] ?? null
    if (fault === null) return []
    const fix =
      'Name what the agent needs in sandboxRequirements.read of its card, and nothing that is not there.'
    return [{ name: `grant ${grant}`, ok: false, detail: `${grant} ${fault}`, fix }]
  })
}
