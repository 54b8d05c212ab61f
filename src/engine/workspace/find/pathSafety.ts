import { lstat, realpath } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { integrationTreeAbove } from './marker.ts'

/** Whether `inner` is `outer` or lies below it. Both are absolute and normalised. */
export function isInside(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)
}

/**
 * A folder below one that an agent has written, or null where anything on the way is not a folder: a link there
 * would lead us to whatever of the host's the agent chose. (escape: layer-link)
 */
export async function folderInside(layer: string, ...names: readonly string[]): Promise<string | null> {
  let at = layer
  for (const name of ['', ...names]) {
    if (name === '..' || name.includes('/')) return null
    at = join(at, name)
    if ((await lstat(at).catch(() => null))?.isDirectory() !== true) return null
  }
  return at
}

/** Whether one of the two contains the other. */
export function overlaps(one: string, other: string): boolean {
  return isInside(one, other) || isInside(other, one)
}

/**
 * Seed 2's path safety check, made before git is touched: a sandbox may never be, contain or lie in an
 * integration tree. Paths are compared as they will resolve, so that a link in the data folder cannot lead
 * a sandbox into a tree.
 */
export async function assertSandboxPath(sandboxTree: string, integrationTree: string): Promise<void> {
  const [sandbox, integration] = await Promise.all([
    resolveFuture(sandboxTree),
    resolveFuture(integrationTree),
  ])
  const marked = await integrationTreeAbove(sandbox)
  const why = overlaps(sandbox, integration)
    ? `it overlaps the integration tree ${integration}`
    : marked !== null
      ? `${marked} carries an integration marker`
      : null
  if (why === null) return
  throw new OrangeryError('workspace.sandbox_path_unsafe', `sandbox ${sandboxTree}: ${why}`, {
    kind: 'refused',
    hint: 'Nothing was created. Agents never work in an integration tree.',
  })
}

/** Where a path that may not exist yet will resolve to: its nearest existing ancestor decides. */
async function resolveFuture(path: string): Promise<string> {
  const missing: string[] = []
  for (let at = path; ; at = dirname(at)) {
    const real = await realpath(at).catch(() => null)
    if (real !== null) return join(real, ...missing)
    missing.unshift(basename(at))
  }
}
