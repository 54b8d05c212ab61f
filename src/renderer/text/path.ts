export type PathParts = { readonly folder: string; readonly stem: string; readonly ending: string }

const longestEnding = 8

/** Where a path may be cut when there is no room for it: before its name, and before the ending of that. */
export function partsOf(path: string): PathParts {
  const cut = path.lastIndexOf('/', path.length - 2) + 1
  const name = path.slice(cut)
  const dot = name.lastIndexOf('.')
  const at = dot > 0 && name.length - dot <= longestEnding ? dot : name.length
  return { folder: path.slice(0, cut), stem: name.slice(0, at), ending: name.slice(at) }
}
