import { isAbsolute, join, resolve } from 'node:path'
import type { CheckResult } from '../../shared/doctor.ts'
import { readSmallFile } from '../base/files.ts'
import { isInside } from './pathSafety.ts'
import type { Project } from './project.ts'

const longestChain = 5

/**
 * Folders of objects that a project's repositories borrow from elsewhere (`git clone --shared`), outside of all that
 * its sandbox shows. They are not shown for being named: whoever made the checkout would choose which of the
 * user's repositories the agent reads. (escape: borrowed-objects)
 */
export function borrowedFolders({ roots }: Pick<Project, 'roots'>): string[] {
  const seen = roots.flatMap(({ path, git }) => {
    const isShown = git !== null && (isInside(git.commonDir, path) || (git.confirmed && git.top === path))
    return isShown ? [git.commonDir] : []
  })
  const shown = [...seen, ...roots.map(({ path }) => path)]
  const found = new Set<string>()
  let chain = seen.map((commonDir) => join(commonDir, 'objects'))
  for (let depth = 0; depth < longestChain && chain.length > 0; depth += 1) {
    const next = chain.flatMap(alternatesOf).filter((folder) => !found.has(folder))
    for (const folder of next) found.add(folder)
    chain = next
  }
  return [...found].filter((folder) => !shown.some((place) => isInside(folder, place)))
}

function alternatesOf(objects: string): string[] {
  const text = readSmallFile(join(objects, 'info', 'alternates')) ?? ''
  return text.split('\n').flatMap((line) => {
    if (line === '' || line.startsWith('#')) return []
    const path = line.startsWith('"') ? line.slice(1, -1).replace(/\\(.)/g, '$1') : line
    return [isAbsolute(path) ? resolve(path) : resolve(objects, path)]
  })
}

/** A worktree sandbox is nothing without git. */
export function checkBorrowed(project: Pick<Project, 'roots'>): CheckResult {
  const folders = borrowedFolders(project)
  const ok = folders.length === 0
  const detail = ok
    ? 'the repository has all its objects itself'
    : `the repository borrows objects from ${folders.join(', ')}, which the sandbox does not show: git would not work inside`
  return { name: 'borrowed objects', ok, detail, fix: ok ? null : makeWhole }
}

/** What helps where a repository is not whole. */
const makeWhole =
  'Make the repository whole: `git repack -ad`, then remove its objects/info/alternates. Or use the overlay strategy and name the other repository as a root too.'

/** What that means for git inside, as sentences. */
export function borrowedNotes(project: Pick<Project, 'roots'>): string[] {
  const folders = borrowedFolders(project)
  if (folders.length === 0) return []
  return [
    `git does not work inside: the repository borrows objects from ${folders.join(', ')}, which the sandbox does not show. ${makeWhole}`,
  ]
}
