import { chmod, mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { removeTree } from '../../workspace/end/removeTree.ts'
import { detectSecrets } from './systemView.ts'

test('what others may not read is found, and a folder they may list and not enter', async () => {
  await using scope = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'orangery-secrets-'))
  scope.defer(() => removeTree(folder))
  await chmod(folder, 0o755)
  const modes = { open: 0o755, closed: 0o700, listed: 0o744, entered: 0o711 }
  for (const [name, mode] of Object.entries(modes)) {
    const each = join(folder, name)
    await mkdir(each)
    await writeFile(join(each, 'key'), 'secret', { mode: 0o644 })
    await writeFile(join(each, 'own'), 'secret', { mode: 0o600 })
    await chmod(each, mode)
  }
  const nothing = join(folder, 'open', 'nothing')
  await mkdir(nothing)
  const foundIn = async (etc: string, software: readonly string[]) => {
    const searched = { etc: [etc], software, unsearched: [] }
    const { secretPaths } = await detectSecrets('/usr/bin/find', { uid: 0, searched })
    return secretPaths.map(({ path }) => path.slice(folder.length + 1)).sort()
  }
  // In /etc a folder that cannot be listed is closed as well; elsewhere it holds programs for everyone.
  expect(await foundIn(folder, [])).toEqual(['closed', 'entered', 'listed', 'open/own'])
  expect(await foundIn(nothing, [folder])).toEqual(['closed', 'entered/own', 'listed', 'open/own'])
})
