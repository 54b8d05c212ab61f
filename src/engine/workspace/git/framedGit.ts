import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { tryGit } from '../../base/git.ts'

/** What of a repository is only data to git: no program is named in it. */
const data = ['objects', 'refs', 'packed-refs', 'reftable', 'shallow']
const formats = String.raw`^extensions\.(objectformat|refstorage)$`

/**
 * A repository of ours around the objects and refs that an agent left, by links that lead to them where they are seen
 * inside. In its own one git would obey the agent's configuration, which names programs: to reach a remote that has an
 * object that is missing, for one. (escape: git-after-the-end)
 */
export async function frameGit(path: string, commonDir: string, seenAt: string): Promise<void> {
  // How objects are named and refs are kept is asked of the user's, never of the agent's.
  const asked = await tryGit(['config', '--get-regexp', formats], { gitDir: commonDir })
  const told = [...asked.stdout.toString().matchAll(/^extensions\.(\w+) (\w+)$/gm)]
  const config = [
    '[core]',
    'repositoryformatversion = 1',
    'bare = true',
    '[extensions]',
    ...told.map(([, name, value]) => `${name} = ${value}`),
  ]
  await mkdir(path)
  await writeFile(join(path, 'HEAD'), 'ref: refs/heads/none\n')
  await writeFile(join(path, 'config'), `${config.join('\n')}\n`)
  for (const name of data) await symlink(join(seenAt, name), join(path, name))
}
