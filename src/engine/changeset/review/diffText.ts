import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { exactText, type ExactText } from '../../base/exactText.ts'
import { alsoObjectsOf, git } from '../../base/git.ts'
import { makeScratch } from '../../base/scratch.ts'
import { fromText, joinPath, parentsOf, toText, type BytePath } from '../bytePath.ts'
import { realDisk } from '../disk.ts'
import { sameContent, type Entry, type ManifestRoot, type Side } from '../manifest.ts'
import { largeFile, largeFileConfig, writeTree } from '../objects/objects.ts'
import { PackWriter } from '../objects/packWriter.ts'
import { diffArguments } from './patch.ts'
import { treeItemOf, writeReviewTree } from '../apply/rebase.ts'

/** Both sides of one path in a diff, which need not be those of a capture. */
export type DiffPair = Pick<Entry, 'root' | 'path' | 'base' | 'result'>
export type DiffText = ExactText & {
  readonly truncated: boolean
  /** Files too large for a patch: they are not in it, and land by apply alone. */
  readonly left_out?: string[]
}
export type DiffForm = {
  readonly stat: boolean
  readonly maxBytes: number
  /** For `git am`, which goes by the index: that has no empty folders. */
  readonly isMail: boolean
}

/** A unified diff that `git apply` takes: one root as `a/ b/`, several each under its folder name. */
export async function diffText(
  gitDir: string,
  roots: readonly ManifestRoot[],
  pairs: readonly DiffPair[],
  form: DiffForm,
): Promise<DiffText> {
  const temporary = await makeScratch('orangery-diff-')
  try {
    // Trees made for this one look live in a store of their own that borrows the blobs.
    const writer = new PackWriter(temporary, realDisk)
    const trees: { base: string; result: string }[] = []
    // One of them without its bytes would make git refuse all the others.
    const large = form.stat ? [] : pairs.filter(isTooLarge)
    const shownPairs = form.stat ? pairs : pairsTold(pairs)
    const isLarge = large.length > 0 && large.length === pairs.length
    for (const root of roots) {
      const own = shownPairs.filter((pair) => pair.root === root.path)
      if (own.length === 0) continue
      // A prefix is missing from summaries and from the lines that tell a rename: git would not apply those.
      const at = (path: BytePath) => (roots.length > 1 ? joinPath(fromText(root.name), path) : path)
      const treeOf = (some: readonly DiffPair[], which: 'base' | 'result') => {
        const sides = some.map((pair) => ({ path: at(pair.path), side: pair[which] }))
        const folders = which === 'base' && !form.isMail ? foldersInTheWay(some) : []
        // A summary tells sizes, for which nothing is read.
        if (!form.stat)
          return writeReviewTree(
            writer,
            sides,
            folders.map(({ path }) => ({ path: at(path), mode: '160000', oid: emptyTree })),
          )
        return writeTree(
          writer,
          sides.flatMap(({ path, side }) => treeItemOf(path, side)),
        )
      }
      for (const some of form.stat ? [own] : apartFromLinks(own))
        trees.push({ base: await treeOf(some, 'base'), result: await treeOf(some, 'result') })
    }
    await writer.flush()
    const env = {
      GIT_OBJECT_DIRECTORY: join(temporary, 'objects'),
      ...alsoObjectsOf(gitDir),
    }
    const parts: Buffer[] = []
    for (const { base, result } of trees) {
      // Bytes of a large binary are no reading matter: who asks for it alone sees that it differs.
      const shape = form.stat ? ['--stat=200'] : isLarge ? ['-p'] : ['-p', '--binary']
      const args = [...largeFileConfig, 'diff', ...diffArguments, ...shape, base, result]
      parts.push(await git(args, { gitDir, env, maxBytes: form.maxBytes * 2 + 1024 * 1024 }))
    }
    const whole = Buffer.concat(parts)
    const shown = whole.subarray(0, form.maxBytes)
    return {
      ...exactText(shown),
      truncated: whole.length > form.maxBytes,
      ...(large.length === 0 ? {} : { left_out: large.map((pair) => toText(pair.path)) }),
    }
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

/**
 * Links that give way to a folder go by themselves, and first. Told as the old name of a rename a link has no mode: git
 * does not learn that it goes away, and refuses what comes below it.
 */
function apartFromLinks(pairs: readonly DiffPair[]): DiffPair[][] {
  const isReplaced = ({ base, result }: DiffPair) => base?.kind === 'symlink' && result?.kind === 'directory'
  const links = pairs.filter(isReplaced).map((pair) => ({ ...pair, result: null }))
  const others = pairs.filter((pair) => !isReplaced(pair))
  return [links, others].filter((some) => some.length > 0)
}

/** Names no commit: git looks into no submodule here. */
const emptyTree = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

/**
 * Empty folders in a folder that becomes a file. Git knows none, and fails to remove what has them in it: only told as
 * submodules, which are empty folders where they are not checked out, does it take them away.
 */
function foldersInTheWay(pairs: readonly DiffPair[]): readonly DiffPair[] {
  const results = new Map(pairs.map(({ path, result }) => [path, result]))
  const filled = new Set(pairs.filter(({ base }) => base !== null).flatMap(({ path }) => parentsOf(path)))
  return pairs.filter(
    ({ path, base }) =>
      base?.kind === 'directory' &&
      !filled.has(path) &&
      parentsOf(path).some((folder) => ['file', 'symlink'].includes(results.get(folder)?.kind ?? '')),
  )
}

/** Those that a diff of all of them has something to say of: what is too large is told of only where nothing else is. */
export function pairsTold<Pair extends DiffPair>(pairs: readonly Pair[]): readonly Pair[] {
  const told = pairs.filter((pair) => !isTooLarge(pair))
  return told.length > 0 ? told : pairs
}

function isTooLarge({ base, result }: DiffPair): boolean {
  const isLarge = (side: Side | null) => side?.kind === 'file' && side.size > largeFile
  return (isLarge(base) || isLarge(result)) && !sameContent(base, result)
}
