import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { git } from '../src/engine/base/git.ts'

const trees = new Map<number, Promise<string>>()
let base: Promise<string> | undefined

/** A folder for the benchmark's own files, removed when the run is over. */
export function benchFolder(): Promise<string> {
  base ??= mkdtemp(join(process.env['ORANGERY_BENCH_DIR'] ?? tmpdir(), 'orangery-bench-'))
  return base
}

const perFolder = 100

/** One commit of that many small files, as `git fast-import` reads it: one pack, and no process or call per file. */
function commitOf(files: number): string {
  const lines = [
    'commit refs/heads/main',
    'committer bench <bench@localhost> 1700000000 +0000',
    'data 4\ntree',
  ]
  for (let index = 0; index < files; index += 1) {
    const group = Math.floor(index / perFolder)
    const folder = `d${Math.floor(group / 50)}/d${group % 50}`
    const text = `file ${index}\n`.repeat(4)
    lines.push(`M 100644 inline ${folder}/file${index % perFolder}.txt`, `data ${text.length}`, text)
  }
  return `${lines.join('\n')}\n`
}

async function makeTree(files: number): Promise<string> {
  const root = join(await benchFolder(), `tree-${files}`)
  await git(['init', '-q', '-b', 'main', root])
  await git(['fast-import', '--quiet'], { cwd: root, input: commitOf(files) })
  await git(['reset', '-q', '--hard'], { cwd: root })
  return root
}

/** A git checkout of that many small files, made once per run and shared by the rows: do not write to it. */
export function tree(files: number): Promise<string> {
  let made = trees.get(files)
  if (made === undefined) {
    made = makeTree(files)
    trees.set(files, made)
  }
  return made
}

export async function removeTrees(): Promise<void> {
  if (base !== undefined) await rm(await base, { recursive: true, force: true })
}
