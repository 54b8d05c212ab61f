import { createHash } from 'node:crypto'
import { git } from '../base/git.ts'
import type { BytePath } from './bytePath.ts'
import { largeFileConfig } from './objects.ts'

/** A run of changed lines with its context. `lines` are the patch's own, each character one byte. */
export type PatchHunk = {
  /** Names the hunk by its content: it keeps its name when lines move, and loses it when a byte changes. */
  readonly id: string
  readonly header: string
  readonly oldStart: number
  readonly oldCount: number
  readonly insertions: number
  readonly deletions: number
  readonly lines: readonly string[]
}
export type PatchFile = {
  readonly status: 'A' | 'D' | 'M' | 'R' | 'T'
  readonly path: BytePath
  readonly from: BytePath | null
  readonly binary: boolean
  readonly hunks: readonly PatchHunk[]
}

/** Attributes the agent wrote have no say here: a bare repository reads none of them. */
export const diffArguments = ['--no-ext-diff', '--no-textconv', '--no-color', '-M', '-l3000', '--full-index']

/** What git says differs between two trees, hunk by hunk. */
export async function readPatch(
  gitDir: string,
  baseTree: string,
  resultTree: string,
  options: { readonly largeFileBytes?: number; readonly signal?: AbortSignal } = {},
): Promise<readonly PatchFile[]> {
  if (baseTree === resultTree) return []
  const large =
    options.largeFileBytes === undefined
      ? largeFileConfig
      : ['-c', `core.bigFileThreshold=${options.largeFileBytes}`]
  const args = [...large, 'diff-tree', '-r', '-p', '--raw', '-z', ...diffArguments, baseTree, resultTree]
  const output = await git(args, { gitDir, ...(options.signal ? { signal: options.signal } : {}) })
  return parsePatch(output.toString('latin1'))
}

type RawRecord = Pick<PatchFile, 'status' | 'path' | 'from'>

export function parsePatch(output: string): readonly PatchFile[] {
  const { records, rest } = parseRaw(output)
  const lines = rest.split('\n')
  let at = 0
  const files: PatchFile[] = []
  for (const record of records) {
    const hunks: PatchHunk[] = []
    const counts = new Map<string, number>()
    let binary = false
    // A change of type is told as a deletion and a creation.
    for (let part = record.status === 'T' ? 2 : 1; part > 0; part -= 1) {
      at += 1
      for (;;) {
        const line = lines[at]
        if (line === undefined || line.startsWith('diff --git ')) break
        if (line.startsWith('Binary files ')) binary = true
        const header = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line)
        if (header === null) {
          at += 1
          continue
        }
        const hunk = takeHunk(lines, at, header)
        hunks.push({ ...hunk, id: hunkId(hunk.lines, counts) })
        at += 1 + hunk.lines.length
      }
    }
    files.push({ ...record, binary, hunks })
  }
  return files
}

function parseRaw(output: string): { records: RawRecord[]; rest: string } {
  const records: RawRecord[] = []
  let at = 0
  const field = () => {
    const end = output.indexOf('\0', at)
    const text = output.slice(at, end)
    at = end + 1
    return text
  }
  while (output[at] === ':') {
    const status = field().split(' ')[4]?.[0] as PatchFile['status']
    const first = field() as BytePath
    records.push(
      status === 'R'
        ? { status, from: first, path: field() as BytePath }
        : { status, from: null, path: first },
    )
  }
  return { records, rest: output.slice(output[at] === '\0' ? at + 1 : at) }
}

function takeHunk(lines: readonly string[], at: number, header: RegExpExecArray): Omit<PatchHunk, 'id'> {
  let old = Number(header[2] ?? 1)
  let added = Number(header[3] ?? 1)
  const oldCount = old
  let insertions = 0
  let deletions = 0
  let end = at + 1
  while (old > 0 || added > 0 || lines[end]?.startsWith('\\') === true) {
    const sign = lines[end]?.[0]
    if (sign === '+') [added, insertions] = [added - 1, insertions + 1]
    else if (sign === '-') [old, deletions] = [old - 1, deletions + 1]
    else if (sign !== '\\') [old, added] = [old - 1, added - 1]
    end += 1
  }
  return {
    header: lines[at] ?? '',
    oldStart: Number(header[1]),
    oldCount,
    insertions,
    deletions,
    lines: lines.slice(at + 1, end),
  }
}

/** Equal hunks of one file are told apart by their order. */
function hunkId(lines: readonly string[], counts: Map<string, number>): string {
  const digest = createHash('sha256').update(lines.join('\n'), 'latin1').digest('hex').slice(0, 16)
  const count = (counts.get(digest) ?? 0) + 1
  counts.set(digest, count)
  return count === 1 ? digest : `${digest}-${count}`
}

/** The base with only the chosen hunks in it. */
export function withHunks(base: Buffer, hunks: readonly PatchHunk[]): Buffer {
  const lines = base.toString('latin1').split(/(?<=\n)/)
  if (base.length === 0) lines.pop()
  const output: string[] = []
  let cursor = 0
  for (const hunk of hunks) {
    // A hunk that removes nothing stands after its line, any other one at it.
    const start = hunk.oldCount === 0 ? hunk.oldStart : hunk.oldStart - 1
    output.push(...lines.slice(cursor, start))
    cursor = start
    hunk.lines.forEach((line, at) => {
      if (line.startsWith('+'))
        output.push(line.slice(1) + (hunk.lines[at + 1]?.startsWith('\\') ? '' : '\n'))
      else if (!line.startsWith('\\')) {
        if (!line.startsWith('-')) output.push(lines[cursor] ?? '')
        cursor += 1
      }
    })
  }
  return Buffer.from([...output, ...lines.slice(cursor)].join(''), 'latin1')
}
