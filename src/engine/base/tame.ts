import { OrangeryError } from '../../shared/errors.ts'
import { tryGit, type GitOptions } from './git.ts'
import type { RunResult } from './process.ts'

export type Tamed = {
  readonly settings: readonly string[]
  /** Git could not say what is configured there: then nothing runs there either. */
  readonly failed?: RunResult
}

// Attributes of a tree an agent wrote choose which of the user's filter, merge and diff programs run, and on
// what: each that the configuration names, as it is read in that checkout, is switched off. (escape: git-drivers)
export async function tame(place: GitOptions): Promise<Tamed> {
  const listed = await tryGit(
    ['config', '-z', '--name-only', '--get-regexp', '^(filter|merge|diff)\\..*\\.'],
    place,
  )
  // It ends with 1 where there are none.
  if (listed.code !== 0 && listed.code !== 1) return { settings: [], failed: listed }
  const drivers = new Set<string>()
  for (const key of listed.stdout.toString().split('\0')) {
    const end = key.lastIndexOf('.')
    if (end > 0) drivers.add(key.slice(0, end))
  }
  const settings: string[] = []
  for (const driver of drivers) {
    // An `=` in the name would end it early on the command line.
    if (driver.includes('=')) {
      throw new OrangeryError(
        'workspace.odd_git_config',
        `git configuration: the name ${driver} holds an "="`,
        {
          kind: 'refused',
          hint: 'Rename it; it cannot be switched off while Orangery works on the repository.',
        },
      )
    }
    if (driver.startsWith('filter.')) {
      settings.push(`${driver}.process=`, `${driver}.clean=`, `${driver}.smudge=`, `${driver}.required=false`)
    } else if (driver.startsWith('merge.')) settings.push(`${driver}.driver=false`)
    else settings.push(`${driver}.command=`, `${driver}.textconv=`)
  }
  return { settings: settings.flatMap((setting) => ['-c', setting]) }
}
