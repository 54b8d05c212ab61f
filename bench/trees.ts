import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
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

async function makeTree(files: number): Promise<string> {
  const root = join(await benchFolder(), `tree-${files}`)
  const perFolder = 100
  for (let start = 0; start < files; start += perFolder) {
    const group = Math.floor(start / perFolder)
    const folder = join(root, `d${Math.floor(group / 50)}`, `d${group % 50}`)
    await mkdir(folder, { recursive: true })
    const count = Math.min(perFolder, files - start)
    await Promise.all(
      Array.from({ length: count }, (_, index) =>
        writeFile(join(folder, `file${index}.txt`), `file ${start + index}\n`.repeat(4)),
      ),
    )
  }
  await git(['init', '-q', root])
  await git(['add', '-A'], { cwd: root })
  await git(['commit', '-q', '-m', 'tree'], { cwd: root })
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
