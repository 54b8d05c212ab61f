import { createHash } from 'node:crypto'
import { git } from '../../base/git.ts'
import type { BytePath } from '../bytePath.ts'
import { largeFileConfig } from '../objects/objects.ts'

/** A run of changed lines with its context. `lines` are the patch's own, each character one byte. */
export type PatchHunk = {
  /** Names the hunk by its content; where the file has several of that content, also by its place in the base. */
  readonly id: string
  readonly header: string
  readonly oldStart: number
  readonly newStart: number
  readonly oldCount: number
  readonly insertions: number
  readonly deletions: number
  readonly lines: readonly string[]
}
export type PatchFile = {
  readonly status: 'A' | 'D' | 'M' | 'R' | 'T'
  readonly path: BytePath
  readonly from: BytePath | null
  /** In percent, of a renamed file: how much of it is as it was under its old name. */
  readonly similarity?: number
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

type RawRecord = Pick<PatchFile, 'status' | 'path' | 'from' | 'similarity'> & { readonly baseOid: string }

export function parsePatch(output: string): readonly PatchFile[] {
  const { records, rest } = parseRaw(output)
  const lines = rest.split('\n')
  let at = 0
  const files: PatchFile[] = []
  for (const { baseOid, ...record } of records) {
    const hunks: Unnamed[] = []
    let binary = false
    // A change of type is told as a deletion and a creation.
    for (let part = record.status === 'T' ? 2 : 1; part > 0; part -= 1) {
      at += 1
      for (;;) {
        const line = lines[at]
        if (line === undefined || line.startsWith('diff --git ')) break
        if (line.startsWith('Binary files ')) binary = true
        const header = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line)
        if (header === null) {
          at += 1
          continue
        }
        const hunk = takeHunk(lines, at, header)
        hunks.push(hunk)
        at += 1 + hunk.lines.length
      }
    }
    files.push({ ...record, binary, hunks: nameHunks(hunks, baseOid) })
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
    const [, , baseOid = '', , word] = field().split(' ')
    const status = word?.[0] as PatchFile['status']
    const first = field() as BytePath
    records.push(
      status === 'R'
        ? {
            status,
            baseOid,
            from: first,
            path: field() as BytePath,
            similarity: Number(word?.slice(1)),
          }
        : { status, baseOid, from: null, path: first },
    )
  }
  return { records, rest: output.slice(output[at] === '\0' ? at + 1 : at) }
}

type Unnamed = Omit<PatchHunk, 'id'>

function takeHunk(lines: readonly string[], at: number, header: RegExpExecArray): Unnamed {
  let old = Number(header[2] ?? 1)
  let added = Number(header[4] ?? 1)
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
    newStart: Number(header[3]),
    oldCount,
    insertions,
    deletions,
    lines: lines.slice(at + 1, end),
  }
}

const digestLength = 16

/**
 * Equal hunks are told apart by where they stand, never by their order: were the first of them gone, the second
 * would answer to its name.
 */
function nameHunks(hunks: readonly Unnamed[], baseOid: string): PatchHunk[] {
  const named = hunks.map((hunk) => ({ ...hunk, id: digestOf(hunk.lines.join('\n'), digestLength) }))
  const alike = Map.groupBy(named, ({ id }) => id)
  return named.map((hunk) => {
    if (alike.get(hunk.id)?.length === 1) return hunk
    return { ...hunk, id: `${hunk.id}-${digestOf(`${baseOid} ${hunk.oldStart}`, 8)}` }
  })
}
function digestOf(text: string, length: number): string {
  return createHash('sha256').update(text, 'latin1').digest('hex').slice(0, length)
}

/** What the hunk says, wherever it stands. */
export function contentOfHunk(id: string): string {
  return id.slice(0, digestLength)
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
