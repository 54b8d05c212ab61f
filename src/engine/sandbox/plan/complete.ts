import { existsSync, lstatSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { pathBytes } from '../bytes.ts'
import { ensureLayer } from './etc.ts'
import { withHidden } from './hide.ts'
import { commonMounts, layerFolders } from '../holder/holder.ts'
import type { SandboxPlan } from './plan.ts'
import { setGidRules } from '../seccomp/rules.ts'
import { withoutSockets } from './sockets.ts'
import type { ViewStep } from './view.ts'
import { withWritableFiles } from './writableFiles.ts'

/** The host was looked at some time ago: what has gone since cannot be covered, and need not be. */
function withoutVanished(plan: SandboxPlan): SandboxPlan {
  return { ...plan, view: plan.view.filter((step) => step.kind !== 'hidden' || !isGone(step.target)) }
}

// At once: these are folders of the system, and an agent waits for this.
function isGone(path: string): boolean {
  try {
    return lstatSync(pathBytes(path), { throwIfNoEntry: false }) === undefined
  } catch {
    return false
  }
}

/** The plan with the layers over /etc and the system surely there, though the data folder was emptied since. */
async function withLayers(plan: SandboxPlan): Promise<SandboxPlan> {
  const [, system] = layerFolders(commonMounts(plan))
  if (system !== '' && !existsSync(system)) await mkdir(system, { recursive: true, mode: 0o755 })
  const step = plan.view.find((candidate) => candidate.kind === 'covered')
  if (step === undefined) return plan
  const folder = await ensureLayer(step.layer, plan.request.workspace.dir)
  if (folder === step.layer.folder) return plan
  const moved: ViewStep = { ...step, layer: { ...step.layer, folder } }
  return { ...plan, view: plan.view.map((candidate) => (candidate === step ? moved : candidate)) }
}

/** An agent with the real files could leave a set-gid program there; only a group's shared folders need the bit. */
async function withSetGid(plan: SandboxPlan): Promise<SandboxPlan> {
  const direct = plan.request.workspace.roots.flatMap((root) =>
    root.mount.kind === 'bind' && root.access === 'rw' ? [root.mount.source] : [],
  )
  if (plan.seccomp === null || direct.length === 0) return plan
  const modes = await Promise.all(direct.map((path) => stat(path).then(({ mode }) => mode)))
  if (modes.some((mode) => (mode & 0o2000) !== 0)) return plan
  return { ...plan, seccomp: { ...plan.seccomp, rules: [...setGidRules, ...plan.seccomp.rules] } }
}

/** The plan with what only a look at the files can tell. */
export async function completePlan(plan: SandboxPlan): Promise<SandboxPlan> {
  const present = withoutVanished(await withWritableFiles(plan))
  return withSetGid(await withLayers(await withHidden(withoutSockets(present))))
}
