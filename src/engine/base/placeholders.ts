import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomically } from './files.ts'
import type { Workspace } from './workspace.ts'

const storedSchema = z.object({
  version: z.literal(1),
  files: z.array(z.object({ root: z.string(), path: z.string() })),
})

/**
 * A file that we made only so that it can be written in place, by the user's path of its root and its own below that.
 * Empty as we made it, it is no change of the agent's: whoever looks at a workspace must know, also after a crash.
 */
export type Placeholder = z.infer<typeof storedSchema>['files'][number]

const noteOf = ({ dir }: Pick<Workspace, 'dir'>): string => join(dir, 'placeholders.json')

export async function notePlaceholders(
  workspace: Pick<Workspace, 'dir'>,
  files: readonly Placeholder[],
): Promise<void> {
  const stored: z.infer<typeof storedSchema> = { version: 1, files: [...files] }
  await writeFileAtomically(noteOf(workspace), JSON.stringify(stored), 0o600, 'file')
}

export async function readPlaceholders(workspace: Pick<Workspace, 'dir'>): Promise<readonly Placeholder[]> {
  const text = await readFile(noteOf(workspace), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  return text === null ? [] : storedSchema.parse(JSON.parse(text)).files
}
