import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { ChangedFile } from '../../src/shared/changeset.ts'
import { splitPatch } from '../../src/renderer/review/patch.ts'

const run = promisify(execFile)
const protectedPaths = /^(\.envrc|package\.json|\.github\/|AGENTS\.md)/

type Content = Readonly<Record<string, string | null>>

/** A changeset made by git itself, so that the window is shown what the engine would show it. */
export async function capture(root: string, base: Content, result: Content) {
  const folder = await mkdtemp(join(tmpdir(), 'orangery-demo-'))
  try {
    const env = { ...process.env, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' }
    const git = async (...args: string[]) =>
      (
        await run('git', ['-c', 'user.name=demo', '-c', 'user.email=demo@demo', ...args], {
          cwd: folder,
          env,
          maxBuffer: 1 << 28,
        })
      ).stdout
    const write = async (content: Content) => {
      for (const [path, text] of Object.entries(content)) {
        if (text === null) {
          await rm(join(folder, path), { force: true })
          continue
        }
        await mkdir(dirname(join(folder, path)), { recursive: true })
        await writeFile(join(folder, path), text)
      }
    }
    await git('init', '-q')
    await write(base)
    await git('add', '-A')
    await git('commit', '-qm', 'base', '--allow-empty')
    await write(result)
    await git('add', '-A')
    const text = await git('diff', '--cached', '-M')
    const files = splitPatch(text).map(({ path, text: patch }) => fileOf(root, path, patch, base, result))
    return { text, files, revision: createHash('sha256').update(text).digest('hex') }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const sha = (text: string | null | undefined) =>
  text == null ? null : createHash('sha256').update(text).digest('hex')

function fileOf(root: string, path: string, patch: string, base: Content, result: Content): ChangedFile {
  const pieces = patch.split(/^(?=@@ )/m).slice(1)
  const count = (piece: string, sign: string) =>
    piece.split('\n').filter((line) => line.startsWith(sign)).length
  const hunks = pieces.map((piece) => ({
    id: createHash('sha256')
      .update(path)
      .update(piece.slice(piece.indexOf('\n')))
      .digest('hex')
      .slice(0, 16),
    header: piece.split('\n')[0] ?? '',
    decision: null,
    insertions: count(piece, '+'),
    deletions: count(piece, '-'),
  }))
  const before = base[path]
  const after = result[path]
  return {
    root,
    path,
    change: before == null ? 'added' : after == null ? 'deleted' : 'modified',
    kind: 'file',
    binary: false,
    mode_before: before == null ? null : '100644',
    mode_after: after == null ? null : '100644',
    sha256_before: sha(before),
    sha256_after: sha(after),
    size_before: before == null ? null : Buffer.byteLength(before),
    size_after: after == null ? null : Buffer.byteLength(after),
    insertions: hunks.reduce((sum, hunk) => sum + hunk.insertions, 0),
    deletions: hunks.reduce((sum, hunk) => sum + hunk.deletions, 0),
    protected: protectedPaths.test(path),
    ignored: false,
    refused: null,
    hunks,
    decision: null,
  }
}
