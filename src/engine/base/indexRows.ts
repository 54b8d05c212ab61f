/** Runs git in the checkout, hardened or as the user: as whoever moves the branch would. */
export type RunGit = (
  args: readonly string[],
  options?: { readonly env?: Readonly<Record<string, string>>; readonly input?: Buffer },
) => Promise<Buffer>

/** What a path holds, as git's own lists say it. */
export type GitItem = { readonly mode: string; readonly oid: string }
/** Undefined: what is staged stays. */
export type Weave = (
  before: GitItem | null,
  staged: GitItem | null,
  after: GitItem | null,
) => Promise<GitItem | null | undefined>

const nothing = '000000'

/**
 * What makes an index follow a branch from one commit to another, as lines for `update-index -z --index-info`. What
 * the user has staged there stays staged.
 */
export async function indexRows(run: RunGit, from: string, to: string, weave?: Weave): Promise<Buffer> {
  // Not `--root`: of several commits that would tell what the last one changed.
  const start = from || (await run(['hash-object', '-t', 'tree', '/dev/null'])).toString().trim()
  const raw = await run(['diff-tree', '-r', '-z', '--raw', '--no-renames', '--full-index', start, to, '--'])
  const staged = await stagedItems(run)
  const removed: Buffer[] = []
  const put: Buffer[] = []
  const fields = raw.toString('latin1').split('\0')
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [modeBefore = '', mode = '', oidBefore = '', oid = ''] = (fields[at] ?? '').slice(1).split(' ')
    const path = fields[at + 1] ?? ''
    const before = modeBefore === nothing ? null : { mode: modeBefore, oid: oidBefore }
    const after = mode === nothing ? null : { mode, oid }
    const now = staged.get(path) ?? null
    const next = isSame(now, before) || isSame(now, after) ? after : await weave?.(before, now, after)
    if (next === undefined) continue
    if (next === null) removed.push(row('0', '0'.repeat(to.length), path))
    else put.push(row(next.mode, next.oid, path))
  }
  // Removals first: a folder that becomes a file has to be empty by then.
  return Buffer.concat([...removed, ...put])
}

async function stagedItems(run: RunGit): Promise<ReadonlyMap<string, GitItem>> {
  const listed = (await run(['ls-files', '-s', '-z', '--full-name', ':/'])).toString('latin1')
  return new Map(
    listed.split('\0').flatMap((line) => {
      const cut = line.indexOf('\t')
      const [mode = '', oid = '', stage] = line.slice(0, cut).split(' ')
      return cut > 0 && stage === '0' ? [[line.slice(cut + 1), { mode, oid }] as const] : []
    }),
  )
}

const isSame = (a: GitItem | null, b: GitItem | null) =>
  a === null || b === null ? a === b : a.mode === b.mode && a.oid === b.oid

const row = (mode: string, oid: string, path: string): Buffer =>
  Buffer.concat([Buffer.from(`${mode} ${oid}\t`), Buffer.from(path, 'latin1'), Buffer.from([0])])
