import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type Ground, lookAtHost, makeGround, runIn, startOn } from '../../src/engine/sandbox/fixture.ts'
import type { HostFacts } from '../../src/engine/sandbox/host/host.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

/** Appends to each of these whenever a number appears in its home, and says which of them took it. */
const watching = (paths: readonly string[]) =>
  `for n in 1 2 3 4 5 6; do while [ ! -e ~/$n ]; do sleep 0.01; done; said=; ` +
  `for p in ${paths.join(' ')}; do (echo $n >>"$p") 2>/dev/null && said="$said $p"; done; ` +
  'echo "$n$said"; touch ~/said$n; done'

async function prepared(): Promise<Ground> {
  const ground = await makeGround()
  await mkdir(join(ground.root, 'src', 'deep'), { recursive: true })
  await mkdir(join(ground.root, 'docs'))
  await writeFile(join(ground.root, 'src', 'main.c'), 'int main;\n')
  return ground
}

test('only the files and folders a level names can be written, live from level to level, and what is written is in the layer', async () => {
  await using ground = await prepared()
  const at = (path: string) => join(ground.root, path)
  const paths = ['src/main.c', 'src/deep/new', 'docs/new', 'README.md', 'new']
  const { sandbox, finish } = await startOn(
    ground,
    ground.request(['sh', '-c', `cd docs; cd ..; ${watching(paths)}`], {
      files: 'ro',
      writableFiles: [at('README.md'), at('src'), at('docs')],
      writableNow: [at('README.md')],
    }),
    host,
  )
  await using _ = sandbox
  expect(sandbox.probe.checks.filter((check) => !check.ok)).toEqual([])
  sandbox.release()
  const say = async (number: number) => {
    await ground.writeHome(String(number))
    await ground.waitForHome(`said${number}`)
  }
  await say(1)
  await sandbox.setFiles('ro', [at('src')])
  await say(2)
  await sandbox.setFiles('ro', [at('src'), at('docs')])
  await say(3)
  await sandbox.setFiles('rw', [])
  await say(4)
  await sandbox.setFiles('ro', [at('docs')])
  await say(5)
  await sandbox.setFiles('ro', [at('README.md')])
  await say(6)
  expect((await finish()).stdout.split('\n')).toEqual([
    '1 README.md',
    '2 src/main.c src/deep/new',
    '3 src/main.c src/deep/new docs/new',
    `4 ${paths.join(' ')}`,
    '5 docs/new',
    '6 README.md',
    '',
  ])
  expect((await readdir(ground.upper)).sort()).toEqual(['README.md', 'docs', 'new', 'src'])
})

test('a level that names a folder starts with it, and with nothing else', async () => {
  await using ground = await prepared()
  const script =
    'touch src/made && echo inside; touch docs/x || echo outside; touch src/../y || echo above; mv src z || echo moved; ' +
    'ln README.md src/hard || echo linked; touch src/deep/hidden || echo hidden'
  await writeFile(join(ground.root, 'src', 'deep', 'hidden'), 'secret\n')
  const outcome = await runIn(ground, host, script, {
    files: 'ro',
    writableFiles: [join(ground.root, 'src')],
    hide: ['hidden'],
  })
  expect(outcome.stdout).toBe('inside\noutside\nabove\nmoved\nlinked\nhidden\n')
  expect(outcome.stderr).toMatch(/docs\/x.*Read-only file system/)
  expect(await readdir(ground.upper)).toEqual(['src'])
})

test('who writes in a folder that stays writable is left alone, and who writes elsewhere is not', async () => {
  await using ground = await prepared()
  const hold = (path: string) => `sh -c "exec 3>${path}; while :; do sleep 0.01 3>&-; done" &`
  const script =
    `${hold('src/kept')} kept=$!; ${hold('docs/ended')} ended=$!; while [ ! -e docs/ended ]; do sleep 0.01; done; touch ~/open; ` +
    'wait $ended; echo $?; while [ ! -e ~/go ]; do sleep 0.01; done; kill -0 $kept && echo kept; kill $kept'
  const { sandbox, finish } = await startOn(
    ground,
    ground.request(['sh', '-c', script], {
      writableFiles: [join(ground.root, 'src')],
      writableNow: [],
    }),
    host,
  )
  await using _ = sandbox
  sandbox.release()
  await ground.waitForHome('open')
  const { note } = await sandbox.setFiles('ro', [join(ground.root, 'src')])
  expect(note).toMatch(/^ended sh \(\d+\) with .*docs\/ended, which did not let go in time$/)
  await ground.writeHome('go')
  expect((await finish()).stdout).toBe('137\nkept\n')
})

test('a folder moved away and a link in its place open nothing that was not named', async () => {
  await using ground = await prepared()
  // What is only in the agent's layer it can rename, whatever is mounted below.
  await mkdir(join(ground.upper, 'made', 'deep'), { recursive: true })
  const script =
    'mv made away; ln -s docs made; mkdir -p docs/deep; touch ~/open; while [ ! -e ~/go ]; do sleep 0.01; done; ' +
    'touch away/deep/named && echo named; touch docs/deep/x || echo refused; touch made/deep/y || echo refused'
  const { sandbox, finish } = await startOn(
    ground,
    ground.request(['sh', '-c', script], {
      writableFiles: [join(ground.root, 'made', 'deep')],
      writableNow: [],
    }),
    host,
  )
  await using _ = sandbox
  sandbox.release()
  await ground.waitForHome('open')
  await sandbox.setFiles('ro', [])
  await sandbox.setFiles('ro', [join(ground.root, 'made', 'deep')])
  await ground.writeHome('go')
  expect((await finish()).stdout).toBe('named\nrefused\nrefused\n')
})

test('a place that is a link, or passes one, is refused', async () => {
  await using ground = await prepared()
  const place = join(ground.root, 'src')
  await symlink('src', join(ground.root, 'link'))
  for (const path of ['link', 'link/main.c', 'link/deep']) {
    const request = { files: 'ro', writableFiles: [join(ground.root, path)] } as const
    await expect(runIn(ground, host, 'true', request)).rejects.toThrow(/is a link/)
  }
  // Positive control: the folder itself can be had.
  const request = { files: 'ro', writableFiles: [place] } as const
  expect(await runIn(ground, host, 'touch src/x', request)).toMatchObject({ exitCode: 0 })
})
