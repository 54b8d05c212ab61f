import { join } from 'node:path'
import { run } from '../base/process.ts'
import type { SandboxPlan } from './plan.ts'
import type { ViewStep } from './view.ts'

/** A pattern without a slash is a name at any depth; with one it is a path from the root, as in .gitignore. */
function findTest(root: string, pattern: string): readonly string[] {
  const plain = pattern.replace(/\/+$/, '')
  // In a path `find` itself reads as a pattern, the root's own characters stand for themselves.
  const literal = root.replaceAll(/[\\*?[\]]/g, String.raw`\$&`)
  return plain.includes('/') ? ['-path', `${literal}/${plain.replace(/^\/+/, '')}`] : ['-name', plain]
}

async function findHidden(
  root: string,
  target: string,
  patterns: readonly string[],
  find: string,
): Promise<readonly ViewStep[]> {
  const tests = patterns.flatMap((pattern, index) => [
    ...(index === 0 ? [] : ['-o']),
    ...findTest(root, pattern),
  ])
  const action = ['-prune', '-printf', String.raw`%y%P\0`]
  const listing = await run(find, [root, '-mindepth', '1', '(', ...tests, ')', ...action])
  return listing.stdout
    .toString()
    .split('\0')
    .filter((line) => line !== '' && !line.startsWith('l'))
    .map((line) => ({
      kind: 'hidden',
      of: line.startsWith('d') ? 'folder' : 'file',
      target: join(target, line.slice(1)),
      why: 'hidden by the spec',
    }))
}

/** The plan with every file that is to be hidden in its view. What comes into being later is not hidden. */
export async function withHidden(plan: SandboxPlan): Promise<SandboxPlan> {
  const { hide, workspace } = plan.request
  if (hide.length === 0 || plan.tools.find === null) return plan
  const find = plan.tools.find
  const found = await Promise.all(
    workspace.roots.map(async (root) => {
      const folders = root.mount.kind === 'bind' ? [root.mount.source] : [root.mount.lower, root.mount.upper]
      const steps = await Promise.all(folders.map((folder) => findHidden(folder, root.target, hide, find)))
      return steps.flat()
    }),
  )
  const steps = new Map(found.flat().map((step) => [step.target, step]))
  const seal = plan.view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  return { ...plan, view: [...plan.view.slice(0, seal), ...steps.values(), ...plan.view.slice(seal)] }
}
