import { OrangeryError } from '../../shared/errors.ts'
import { run } from './process.ts'

export const opaquePattern = '^(user|trusted)\\.(overlay|fuseoverlayfs)\\.opaque$'

/** Folders that replace the original one whole, by their paths' bytes as latin1. Node has no call for extended attributes. */
export async function opaqueFolders(upper: string): Promise<ReadonlySet<string>> {
  const args = ['-R', '-P', '-h', '-m', opaquePattern, '--absolute-names', '--', upper]
  const listing = await run('getfattr', args).catch((error: unknown) => {
    throw new OrangeryError('changeset.no_getfattr', 'cannot read the overlay: getfattr is not installed', {
      kind: 'preflight',
      hint: 'Install the package "attr".',
      cause: error,
    })
  })
  return readOpaque(upper, listing.stdout)
}

/** What `getfattr` said of the folders below an upper layer. */
export function readOpaque(upper: string, said: Buffer): ReadonlySet<string> {
  const found = new Set<string>()
  const prefix = `# file: ${Buffer.from(upper).toString('latin1')}`
  for (const quoted of said.toString('latin1').split('\n')) {
    const line = quoted.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(parseInt(octal, 8)),
    )
    if (line.startsWith(prefix)) found.add(line.slice(prefix.length).replace(/^\//, ''))
  }
  return found
}
