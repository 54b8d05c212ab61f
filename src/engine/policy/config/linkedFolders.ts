import { realpath } from 'node:fs/promises'
import type { ConfigNotice } from '../../../shared/config.ts'
import { userFolder } from './merge.ts'
import type { ConfigLayer } from './read.ts'

/**
 * Folders that the user's file names through a link. Roots are known by their real paths, so these cover nothing. They
 * are not followed: whoever can put a link there, an agent on the real files, would choose what a yes covers.
 */
export async function linkedFolders(layer: ConfigLayer): Promise<readonly ConfigNotice[]> {
  const { sandboxApprovedEscalations: approvals = [], sandboxAutoEscalation: auto } = layer.values
  const named = [
    ...approvals.flatMap(({ roots = [] }, index) =>
      roots.map((path, at) => ({ path, key: ['sandboxApprovedEscalations', index, 'roots', at] })),
    ),
    ...(auto?.roots ?? []).map((path, at) => ({ path, key: ['sandboxAutoEscalation', 'roots', at] })),
  ]
  const notices = await Promise.all(
    named.map(async ({ path, key }) => {
      const folder = userFolder(path)
      const real = folder === null ? null : await realpath(folder).catch(() => null)
      if (real === null || real === folder) return []
      const message = `covers nothing: it leads through a link; write ${real}`
      return [{ file: layer.file, line: layer.lineOf(key), key: key.join('.'), message }]
    }),
  )
  return notices.flat()
}
