import { copyFile, lstat, rm, stat, utimes } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { RunResult } from '../../base/process.ts'
import { makeScratch } from '../../base/scratch.ts'
import { ownNamespace } from '../../base/throughHolder.ts'
import { isShutOut } from './checkout.ts'
import type { Repository } from '../git/repository.ts'

/** `git status` of one checkout, as often as it is asked. */
export type WholeStatus = AsyncDisposable & {
  status(how: readonly string[]): Promise<RunResult>
}

/**
 * Sees also what somebody told git to look past (`--skip-worktree`, `--assume-unchanged`): such an edit is work like
 * any other, and a landing would commit it unreviewed. Asked with a copy of the index; the real one keeps its flags.
 */
export async function openStatus(repository: Repository, tree: string): Promise<WholeStatus> {
  const entries = await hiddenEntries(repository, tree)
  const folder = entries.length === 0 ? null : await makeScratch('orangery-index-')
  const status: WholeStatus = {
    async status(how) {
      // A repository from a system that takes `A` for `a` would have git look past one of the two.
      const ask = ['-c', 'core.ignoreCase=false', 'status', '--porcelain', '-z', ...how]
      const options = { cwd: tree, ...(folder === null ? {} : { env: indexIn(folder) }) }
      const seen = await repository.try(ask, options)
      const again = isShutOut(seen) ? await repository.try(ask, { ...options, through: ownNamespace }) : seen
      return again.code === 0 ? again : seen
    },
    async [Symbol.asyncDispose]() {
      if (folder !== null) await rm(folder, { recursive: true, force: true })
    },
  }
  if (folder === null) return status
  try {
    await copyIndex(repository, tree, indexIn(folder).GIT_INDEX_FILE)
    const input = Buffer.from(entries.map((entry) => `${entry}\0`).join(''), 'latin1')
    const plain = ['-c', 'core.splitIndex=false', 'update-index', '-z', '--index-info']
    await repository.git(plain, { cwd: tree, env: indexIn(folder), input })
    return status
  } catch (error) {
    await status[Symbol.asyncDispose]()
    throw error
  }
}

const indexIn = (folder: string) => ({ GIT_INDEX_FILE: join(folder, 'index') })

/** Entries of the index that git does not compare with their files, as `update-index --index-info` takes them. */
async function hiddenEntries(repository: Repository, tree: string): Promise<string[]> {
  const listed = await repository.raw(['ls-files', '-v', '-s', '-z'], { cwd: tree })
  const hidden: string[] = []
  for (const line of listed.toString('latin1').split('\0')) {
    const [, tag = '', entry = '', path = ''] = /^([a-zS]) (\d+ [0-9a-f]+ \d\t(.*))$/s.exec(line) ?? []
    if (tag === '') continue
    // A sparse checkout leaves files out: that is no work of anybody's.
    const isLeftOut = tag.toUpperCase() === 'S' && !(await isThere(tree, path))
    if (!isLeftOut) hidden.push(entry)
  }
  return hidden
}

const isThere = (tree: string, path: string): Promise<boolean> =>
  lstat(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from(path, 'latin1')])).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT' && error.code !== 'ENOTDIR',
  )

/** As old as the real one: git trusts what it knows of a file only if that is older than the index. */
async function copyIndex(repository: Repository, tree: string, to: string): Promise<void> {
  const from = resolve(tree, await repository.git(['rev-parse', '--git-path', 'index'], { cwd: tree }))
  const { mtimeMs } = await stat(from)
  await copyFile(from, to)
  const before = Math.floor(mtimeMs / 1000)
  await utimes(to, before, before)
}
