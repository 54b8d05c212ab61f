import { existsSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = resolve(fileURLToPath(new URL('../..', import.meta.url)))
export const cache = join(root, '.cache')
export const tool = (name) => join(root, 'node_modules', '.bin', name)

const bundledNode = join(root, 'node_modules', 'node', 'bin', 'node')

/** The Node that runs the project: the one npm brought, or the machine's where that is new enough. */
export function projectNode() {
  if (existsSync(bundledNode)) return bundledNode
  return Number(process.versions.node.split('.')[0]) >= 24 ? process.execPath : undefined
}

/** The caller's environment with the project's tools, and so its Node, in front. */
export function projectEnv(extra = {}) {
  const path = [join(root, 'node_modules', '.bin'), process.env.PATH ?? ''].join(delimiter)
  return { ...process.env, PATH: path, ...extra }
}
