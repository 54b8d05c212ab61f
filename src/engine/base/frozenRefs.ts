import { lstat, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import type { WorkspaceRoot } from './workspace.ts'

/** The refs of a repository as an agent found them when it started, laid into its own layer of it. */
export type FrozenRefs = {
  /** What was laid there, by its path in the layer; a byte a character. */
  readonly files: ReadonlyMap<string, string>
  /** Where each ref stood. */
  readonly refs: ReadonlyMap<string, string>
  /** Whether a file of the layer still says what was laid there. */
  isUntouched(path: string): Promise<boolean>
}

export const packedRefs = 'packed-refs'
/** Of these the layer of an agent shows nothing but what was laid there: that they are marked so is no work of its. */
export const cutFolders = ['refs', 'logs'] as const
export const isCutByUs = (path: string): boolean =>
  cutFolders.some((folder) => path === folder || path.startsWith(`${folder}/`))

/** Beside the layer, where no agent comes. */
export const frozenRecord = (upper: string): string => join(dirname(upper), 'refs.json')

const recordSchema = z.object({ version: z.literal(1), files: z.record(z.string(), z.string()) })

export const frozenText = (files: ReadonlyMap<string, string>): string =>
  `${JSON.stringify({ version: 1, files: Object.fromEntries(files) } satisfies z.input<typeof recordSchema>)}\n`

/** Null where none were frozen: then the agent saw those of the repository itself. */
export async function readFrozenRefs(mount: WorkspaceRoot['mount']): Promise<FrozenRefs | null> {
  if (mount.kind !== 'overlay') return null
  const text = await readFile(frozenRecord(mount.upper), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })
  if (text === null) return null
  const files = new Map(Object.entries(recordSchema.parse(JSON.parse(text)).files))
  return {
    files,
    refs: refsIn(files),
    async isUntouched(path) {
      const laid = files.get(path)
      const at = join(mount.upper, path)
      if (laid === undefined) return false
      const facts = await lstat(at).catch(() => null)
      if (facts?.isFile() !== true || facts.size > 2 * laid.length + 1024) return false
      const text = await readFile(at, 'latin1').catch(() => null)
      if (text === laid || text === null || path !== packedRefs) return text === laid
      return linesOf(text).join('\n') === linesOf(laid).join('\n')
    },
  }
}

/** Git writes the file anew, with notes of its own in it, also where it takes none of these out. */
const linesOf = (packed: string): string[] => packed.split('\n').filter((line) => /^[0-9a-f]/.test(line))

function refsIn(files: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const refs = new Map<string, string>()
  for (const line of linesOf(files.get(packedRefs) ?? '')) {
    const match = /^([0-9a-f]{40,64}) (refs\/.+)$/.exec(line)
    if (match?.[1] !== undefined && match[2] !== undefined) refs.set(match[2], match[1])
  }
  for (const [path, text] of files) {
    const oid = text.trim()
    if (path.startsWith('refs/') && /^[0-9a-f]{40,64}$/.test(oid)) refs.set(path, oid)
  }
  return refs
}
