import type { WorkspaceRoot } from '../../base/workspace.ts'
import { isInside, rootAround } from './view.ts'

export type WritableNow = {
  readonly roots: readonly WorkspaceRoot[]
  /** What alone can be written of the roots now; null: all of them. */
  readonly scope: readonly string[] | null
}

/** The last path that a message names in full. What stands first is the program that speaks. */
export const pathNamed = (text: string): string | null =>
  [...text.matchAll(/[\s'"‘`(=,](\/[^'"’`:,)]*)/g)].at(-1)?.[1]?.trim() ?? null

const heldBy = (scope: readonly string[]) =>
  scope.length === 0
    ? 'its boundary is readonly now: the workspace can be read, and written once the boundary is readwrite'
    : `at its boundary now only ${scope.join(', ')} can be written`

/** Which of the reasons there are kept a write from being made. */
export function writeReason(path: string | null, { roots, scope }: WritableNow): string {
  const seen = roots.filter(({ access }) => access !== 'hidden')
  const places = seen.map(({ target }) => target).join(', ')
  const fixed = seen.filter(({ access }) => access === 'ro')
  if (path === null) {
    if (scope !== null) return heldBy(scope)
    const except = fixed.map(({ target }) => target).join(', ')
    return `only the workspace can be written, ${places}${except === '' ? '' : `, and of that not ${except}, which is read-only`}`
  }
  const root = rootAround(path, seen) ?? seen.find((each) => isInside(path, each.path))
  if (root === undefined) return `only the workspace can be written, ${places}`
  if (root.access === 'ro') return `${root.target} is read-only for it, whatever its boundary`
  if (scope !== null) return heldBy(scope)
  return `it is read-only in ${root.target}, though its boundary lets it write there`
}
