import { isDeepStrictEqual } from 'node:util'
import type { ProjectLayer } from './merge.ts'
import { parseConfig, type ConfigLayer } from './read.ts'
import { approvalDigest, lockConfigs, readTrust, writeTrust, type ProjectTrust } from './trust.ts'

/**
 * What somebody has taken out of a trusted file does not come back with the text that was trusted once: trust moves on
 * to what is left, and an approval that was saved and is gone has to be given again. (escape: restored-approval)
 */
export async function withNarrowedTrust(
  userConfigDir: string,
  layers: readonly ProjectLayer[],
): Promise<ProjectLayer[]> {
  if (!layers.some(isSuspect)) return [...layers]
  try {
    await using _lock = await lockConfigs(userConfigDir)
    const records = await readTrust(userConfigDir)
    const changed = layers.flatMap((layer) => {
      const known = records.projects[layer.home]
      const next = known === undefined ? null : narrowed(known, layer)
      return next === null ? [] : [[layer.home, next] as const]
    })
    if (changed.length === 0) return [...layers]
    const moved = new Map(changed)
    await writeTrust(userConfigDir, {
      ...records,
      projects: { ...records.projects, ...Object.fromEntries(changed) },
    })
    return layers.map((layer) =>
      moved.get(layer.home)?.sha256 === layer.layer?.sha256 && moved.has(layer.home)
        ? { ...layer, trust: 'trusted' }
        : layer,
    )
  } catch {
    // Where nothing can be written down, what was trusted stays as it was.
    return [...layers]
  }
}

const saidBy = (layer: ConfigLayer): Set<string> =>
  new Set((layer.values.sandboxApprovedEscalations ?? []).map(approvalDigest))

/** Cheap, since it is asked at every look at the config. */
function isSuspect({ layer, trust, ownApprovals }: ProjectLayer): boolean {
  if (layer === null) return false
  if (trust === 'changed') return true
  const said = saidBy(layer)
  return ownApprovals.some((id) => !said.has(id))
}

function narrowed(known: ProjectTrust, { layer }: ProjectLayer): ProjectTrust | null {
  if (layer === null) return null
  const said = saidBy(layer)
  const approvals = known.approvals.filter((id) => said.has(id))
  const isOlder = known.sha256 !== null && known.sha256 !== layer.sha256
  const before = isOlder ? parsed({ ...layer, text: known.text }) : null
  if (before !== null && isOnlyWithout(before, layer))
    return { ...known, sha256: layer.sha256, text: layer.text, approvals }
  return approvals.length === known.approvals.length ? null : { ...known, approvals }
}

/** Whether approvals are gone from a text, and nothing else is different. */
function isOnlyWithout(before: ConfigLayer, now: ConfigLayer): boolean {
  const rest = ({ values }: ConfigLayer) => ({ ...values, sandboxApprovedEscalations: [] })
  const [known, left] = [saidBy(before), saidBy(now)]
  return (
    left.size < known.size &&
    [...left].every((id) => known.has(id)) &&
    isDeepStrictEqual(rest(before), rest(now))
  )
}

function parsed(source: ConfigLayer): ConfigLayer | null {
  try {
    return parseConfig(source)
  } catch {
    return null
  }
}
