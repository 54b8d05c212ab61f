import { lstat, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'

/**
 * What a copy was made from. A folder takes the files in it along when it is renamed, and leaves no trace on them:
 * only its inode tells whether the one at a path is still the one that was copied there.
 */
export type CopiedFolder = {
  readonly original: string
  readonly copy: string
  /** What the original had in it. Here and in paths each character is one byte. */
  readonly names: ReadonlySet<string>
}
/** By path below the root, which itself is ''. */
export type CopiedTree = ReadonlyMap<string, CopiedFolder>

const storedSchema = z.object({
  version: z.literal(1),
  folders: z.array(z.tuple([z.string(), z.string(), z.string(), z.array(z.string())])),
})

const recordOf = (copy: string): string => join(dirname(copy), 'copied.json')
const below = (root: string, path: string): Buffer =>
  Buffer.concat([Buffer.from(root), Buffer.from(path === '' ? '' : `/${path}`, 'latin1')])

type Listed = { readonly path: string; readonly inode: string; readonly names: string[] }

/** Before the copy is made: whoever renames a folder after this is found out. */
export async function listFolders(root: string): Promise<Listed[]> {
  const found: Listed[] = []
  const waiting = ['']
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const at = below(root, path)
    try {
      const { ino } = await lstat(at, { bigint: true })
      const entries = await readdir(at, { withFileTypes: true, encoding: 'latin1' })
      found.push({ path, inode: String(ino), names: entries.map(({ name }) => name) })
      for (const entry of entries)
        if (entry.isDirectory()) waiting.push(path === '' ? entry.name : `${path}/${entry.name}`)
    } catch {
      // Gone meanwhile, or not to be listed: one that is not recorded counts as new.
    }
  }
  return found
}

export async function recordCopy(folders: readonly Listed[], copy: string): Promise<void> {
  const stored: z.infer<typeof storedSchema> = { version: 1, folders: [] }
  for (const { path, inode, names } of folders) {
    const stat = await lstat(below(copy, path), { bigint: true }).catch(() => null)
    if (stat?.isDirectory() === true) stored.folders.push([path, inode, String(stat.ino), names])
  }
  await writeFile(recordOf(copy), JSON.stringify(stored), { mode: 0o600 })
}

/** Written once and then only read: looks of a running agent come each second. */
const known = new Map<string, CopiedTree>()
const mostKnown = 4

/** Null: it was copied before this was recorded. */
export async function readCopiedTree(copy: string): Promise<CopiedTree | null> {
  const remembered = known.get(copy)
  if (remembered !== undefined) return remembered
  const text = await readFile(recordOf(copy), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (text === null) return null
  const { folders } = storedSchema.parse(JSON.parse(text))
  const tree: CopiedTree = new Map(
    folders.map(([path, original, made, names]) => [path, { original, copy: made, names: new Set(names) }]),
  )
  known.set(copy, tree)
  if (known.size > mostKnown) known.delete(known.keys().next().value ?? '')
  return tree
}
