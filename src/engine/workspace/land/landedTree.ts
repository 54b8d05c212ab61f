import { access, constants, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { git } from '../../base/git.ts'
import { makeScratch } from '../../base/scratch.ts'
import type { Repository } from '../git/repository.ts'

/** A file or link that landed, as our own repository has it. */
export type LandedBlob = { readonly mode: '100644' | '100755' | '120000'; readonly oid: string }

export type Reviewed = {
  /** The repository that has the blobs, by the paths they landed at, a byte a character. */
  readonly gitDir: string
  readonly blobs: ReadonlyMap<string, LandedBlob>
}

/**
 * The tree of `head` with these paths as they lie in the checkout, line endings as its attributes say and
 * without any filter program. What the agent made unreadable is not opened: the review has its bytes.
 */
export async function landedTree(
  repository: Repository,
  cwd: string,
  head: string,
  paths: readonly Buffer[],
  reviewed: Reviewed,
): Promise<string> {
  const removed: Buffer[] = []
  const kept: Buffer[] = []
  const closed: Buffer[] = []
  for (const path of paths) {
    const at = Buffer.concat([Buffer.from(`${cwd}/`), path])
    const info = await lstat(at).catch(missingOrUnseen)
    const isReadable = info?.isSymbolicLink() === true || (info?.isFile() === true && (await canRead(at)))
    if (isReadable) kept.push(path, zero)
    else if (info === null) removed.push(line('0', '0'.repeat(head.length), path))
    else if (info === undefined || info.isFile()) {
      const blob = reviewed.blobs.get(path.toString('latin1'))
      if (blob === undefined) removed.push(line('0', '0'.repeat(head.length), path))
      else closed.push(line(blob.mode, await cleaned(repository, cwd, path, blob, reviewed.gitDir), path))
    }
  }
  const folder = await makeScratch('orangery-index-')
  try {
    const options = { cwd, env: { GIT_INDEX_FILE: join(folder, 'index') } }
    await repository.git(['read-tree', head], options)
    // Removals first, so that a folder replaced by a file finds its place free.
    const removals = { ...options, input: Buffer.concat(removed) }
    await repository.git(['update-index', '-z', '--index-info'], removals)
    const additions = { ...options, input: Buffer.concat(kept) }
    const add = ['-c', 'core.safecrlf=false', 'update-index', '--add', '--replace', '-z', '--stdin']
    await repository.git(add, additions)
    await repository.git(['update-index', '--add', '--replace', '-z', '--index-info'], {
      ...options,
      input: Buffer.concat(closed),
    })
    return await repository.git(['write-tree'], options)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const zero = Buffer.from([0])
const line = (mode: string, blob: string, path: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${mode} ${blob}\t`), path, zero])

/** Null: it is gone. Undefined: the agent closed its folder to us too. */
function missingOrUnseen(error: NodeJS.ErrnoException): null | undefined {
  return error.code === 'ENOENT' || error.code === 'ENOTDIR' ? null : undefined
}

const canRead = (path: Buffer): Promise<boolean> =>
  access(path, constants.R_OK).then(
    () => true,
    () => false,
  )

/** The blob git would make of what landed at a path, in the user's repository. */
async function cleaned(
  repository: Repository,
  cwd: string,
  path: Buffer,
  { mode, oid }: LandedBlob,
  gitDir: string,
): Promise<string> {
  const input = await git(['cat-file', 'blob', oid], { gitDir })
  const name = path.toString()
  // A command line can only carry text; attributes by names that are none are not honoured.
  const isPlain = mode === '120000' || !Buffer.from(name).equals(path)
  const filters = isPlain ? '--no-filters' : `--path=${name}`
  const hash = ['-c', 'core.safecrlf=false', 'hash-object', '-w', '--stdin', filters]
  return repository.git(hash, { cwd, input })
}
