import type { ChangedFile } from '../../shared/changeset.ts'

export type Placed = Pick<ChangedFile, 'path' | 'path_b64'> & { readonly root?: string | undefined }
/** Ignored files of one folder that are told as one. */
export type Fold<T> = {
  readonly root: string
  /** Within the root; empty for the root itself. */
  readonly folder: string
  readonly bytes: number
  readonly members: readonly T[]
}
type Folded<T> = { readonly others: readonly T[]; readonly folds: readonly Fold<T>[] }

const keyOf = (root: string, { path, path_b64 }: Placed) => `${root}\0${path_b64 ?? path}`
const isFoldable = (file: ChangedFile) =>
  file.ignored &&
  !file.protected &&
  file.refused === null &&
  file.reopened !== true &&
  (file.comments ?? []).length === 0

/**
 * Has the ignored ones among `items` told folder by folder: by the outermost folder in which nothing else has changed,
 * and where there is none by their own. `files` is the whole changeset; `apart` keeps those from each other that are
 * told with other words.
 */
export function foldIgnored<T extends Placed>(
  items: readonly T[],
  files: readonly ChangedFile[],
  apart: (item: T) => string = () => '',
): Folded<T> {
  const known = new Map(files.map((file) => [keyOf(file.root, file), file]))
  const only = new Set(files.map(({ root }) => root)).size === 1 ? files[0]?.root : undefined
  const seen = new Set(
    files
      .filter((file) => !isFoldable(file))
      .flatMap(({ root, path, from_path }) =>
        [path, ...(from_path === undefined ? [] : [from_path])].flatMap((each) =>
          foldersOf(each).map((folder) => `${root}\0${folder}`),
        ),
      ),
  )
  const others: T[] = []
  const groups = new Map<string, { root: string; files: ChangedFile[]; members: T[] }>()
  for (const item of items) {
    const root = item.root ?? only
    const file = root === undefined ? undefined : known.get(keyOf(root, item))
    if (root === undefined || file === undefined || !isFoldable(file)) {
      others.push(item)
      continue
    }
    const folders = foldersOf(file.path)
    const folder = folders.find((each) => !seen.has(`${root}\0${each}`)) ?? folders.at(-1) ?? ''
    const key = `${root}\0${folder}\0${apart(item)}`
    const group = groups.get(key) ?? { root, files: [], members: [] }
    groups.set(key, group)
    group.files.push(file)
    group.members.push(item)
  }
  const folds: Fold<T>[] = []
  for (const group of groups.values()) {
    if (group.members.length === 1) others.push(...group.members)
    else folds.push(foldOf(group))
  }
  return { others, folds }
}

function foldOf<T>({
  root,
  files,
  members,
}: {
  root: string
  files: readonly ChangedFile[]
  members: readonly T[]
}): Fold<T> {
  const [first = [], ...rest] = files.map(({ path }) => foldersOf(path))
  const shared = rest.reduce((common, each) => common.filter((folder, at) => each[at] === folder), first)
  const bytes = files.reduce((sum, file) => sum + (file.size_after ?? file.size_before ?? 0), 0)
  return { root, folder: shared.at(-1) ?? '', bytes, members }
}

/** The folders a path lies in, the outermost first. */
function foldersOf(path: string): string[] {
  const names = path.split('/').slice(0, -1)
  return names.map((_, at) => names.slice(0, at + 1).join('/'))
}
