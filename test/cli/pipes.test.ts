import { execFile } from 'node:child_process'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { removeTree } from '../dispatch/removeTree.ts'

const execute = promisify(execFile)
const orangery = join(import.meta.dirname, '../../bin/orangery')

test('a long answer reaches a slow reader whole', async () => {
  const base = await mkdtemp(join(tmpdir(), 'orangery-pipes-'))
  try {
    const project = join(base, 'project')
    await mkdir(project)
    const options = {
      cwd: project,
      env: { ...process.env, ORANGERY_DATA_DIR: join(base, 'data') },
      maxBuffer: 64 * 1024 * 1024,
    }
    await execute(
      orangery,
      ['run', '--', 'sh', '-c', 'for i in $(seq 600); do echo $i > file$i; done'],
      options,
    )
    const [row] = JSON.parse((await execute(orangery, ['dispatch', 'list', '--json'], options)).stdout)
    const slow = `"$0" changeset show ${row.id} --json | (sleep 1; cat)`
    const { stdout } = await execute('sh', ['-c', slow, orangery], options)
    expect(JSON.parse(stdout).files).toHaveLength(600)
  } finally {
    await removeTree(base)
  }
})
