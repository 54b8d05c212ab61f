import { createHash, randomBytes } from 'node:crypto'
import {
  appendFile,
  constants,
  copyFile,
  link,
  lstat,
  readdir,
  readFile,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { OrangeryError } from '../../shared/errors.ts'
import { ensurePrivateDir, writeFileAtomically } from './files.ts'
import { git, tryGit } from './git.ts'
import { indexRows, type RunGit, type Weave } from './indexRows.ts'
import { createRepoLock } from './lock.ts'
import type { Layout } from './paths.ts'
import { tame } from './tame.ts'

export type BranchMove = {
  /** A work tree that has the branch checked out. */
  readonly checkout: string
  readonly ref: string
  /** Where the branch was; empty for nowhere. */
  readonly old: string
  /** Where it goes, or what moves it there itself and says where: a commit with the user's hooks. */
  readonly to: string | (() => Promise<string>)
  readonly message: string
  readonly run: RunGit
  /** Git of the repository itself, where the checkout's own log of HEAD is not to tell: agents in others see that live. */
  readonly movesRef?: RunGit
  /** What becomes of a path that the user has staged otherwise; without it, or by undefined, it stays staged. */
  readonly weave?: Weave
}

const noteSchema = z.object({
  version: z.literal(1),
  checkout: z.string(),
  gitDir: z.string(),
  ref: z.string(),
  old: z.string(),
  to: z.string().nullable(),
})
type Note = z.infer<typeof noteSchema>
type Place = Pick<Layout, 'dataDir' | 'locks' | 'log'>

const notesIn = ({ dataDir }: Place) => join(dataDir, 'moving')
const lockOf = (gitDir: string) => join(gitDir, 'index.lock')
const nextIndex = (gitDir: string, key: string) => join(gitDir, `orangery-index-${key}`)
const lockedIndex = (gitDir: string, key: string) => `${nextIndex(gitDir, key)}.lock`
const readyLock = (gitDir: string, key: string) => join(gitDir, `orangery-lock-${key}`)
const lockName = (gitDir: string) => `index-${createHash('sha256').update(gitDir).digest('hex').slice(0, 16)}`
const heldIn = (place: Place, gitDir: string) => createRepoLock(place).acquire(lockName(gitDir))

/**
 * Moves a branch together with the index of the checkout that is on it. A branch that moved alone leaves an index
 * that takes the change back with the user's next commit: so git's own lock on the index is had first, a note tells
 * the next start what was under way, and until that has finished it the lock keeps others from committing.
 */
export async function moveCheckedOut(place: Place, move: BranchMove): Promise<string> {
  const { checkout, ref, old, to, message, run, movesRef = run } = move
  const gitDir = (await run(['rev-parse', '--absolute-git-dir'])).toString().trim()
  await finishMoves(place, gitDir)
  await using _held = await heldIn(place, gitDir)
  const key = randomBytes(8).toString('hex')
  const note: Note = { version: 1, checkout, gitDir, ref, old, to: typeof to === 'string' ? to : null }
  const path = join(notesIn(place), `${key}.json`)
  await ensurePrivateDir(notesIn(place))
  await writeFileAtomically(path, JSON.stringify(note))
  try {
    if (!(await takeLock(gitDir, key, ref))) throw indexLocked(checkout, gitDir)
    const prepare = async (commit: string) => {
      await writeNext(gitDir, key, await indexRows(run, old, commit, move.weave), run)
      const env = { GIT_INDEX_FILE: nextIndex(gitDir, key) }
      await run(['update-index', '-q', '--refresh'], { env }).catch(() => {})
    }
    let made: string
    if (typeof to === 'string') {
      await prepare(to)
      await movesRef(['update-ref', '-m', message, ref, to, old || '0'.repeat(to.length)])
      made = to
    } else {
      made = await to()
      await prepare(made)
    }
    await rename(nextIndex(gitDir, key), join(gitDir, 'index'))
    await letGo(gitDir, key, path)
    return made
  } catch (error) {
    // Where the branch has moved all the same, the index follows now, or with the next start.
    await finish(note, key, path).catch(() => {})
    throw error
  }
}

/** Tells before anything is written that the index could not follow. */
export async function refuseLockedIndex(place: Place, checkout: string, run: RunGit): Promise<void> {
  const gitDir = (await run(['rev-parse', '--absolute-git-dir'])).toString().trim()
  await finishMoves(place, gitDir)
  if ((await readFile(lockOf(gitDir)).catch(() => null)) !== null) throw indexLocked(checkout, gitDir)
}

/** A branch that another work tree is on is not moved under it: its index would stay behind. */
export async function refuseCheckedOutElsewhere(run: RunGit, ref: string, own: string | null): Promise<void> {
  const asked = await run(['rev-parse', '--path-format=absolute', '--absolute-git-dir', '--git-common-dir'])
  const [gitDir, common = ''] = asked.toString().split('\n')
  const branch = ref.replace('refs/heads/', '')
  await refuseInTheMiddle(common, branch)
  const listed = (await run(['worktree', 'list', '--porcelain'])).toString()
  for (const [at, record] of listed.split('\n\n').entries()) {
    const lines = record.split('\n')
    const folder = lines.find((line) => line.startsWith('worktree '))?.slice('worktree '.length)
    // Of a submodule, or where the git folder lies elsewhere, the first is named by that: it is the checkout itself.
    const isOwn = own !== null && (folder === own || (at === 0 && gitDir === common))
    if (!lines.includes(`branch ${ref}`) || folder === undefined || isOwn) continue
    throw new OrangeryError('git.branch_in_use', `${branch} is checked out in ${folder}`, {
      kind: 'input',
      hint: 'Nothing was changed. Name another branch, or switch to another one there.',
    })
  }
}

/** Git sets a branch that it rebases or bisects itself in the end: what was put on it meanwhile would be lost. */
async function refuseInTheMiddle(common: string, branch: string): Promise<void> {
  const others = await readdir(join(common, 'worktrees')).catch(() => [])
  for (const gitDir of [common, ...others.map((name) => join(common, 'worktrees', name))]) {
    for (const name of ['rebase-merge/head-name', 'rebase-apply/head-name', 'BISECT_START']) {
      const text = await readFile(join(gitDir, name), 'utf8').catch(() => '')
      if (text.trim().replace('refs/heads/', '') !== branch) continue
      throw new OrangeryError(
        'git.branch_in_use',
        `${branch} is in the middle of a ${name.startsWith('rebase') ? 'rebase' : 'bisect'}`,
        { kind: 'input', hint: 'Nothing was changed. Name another branch, or bring that to its end first.' },
      )
    }
  }
}

/** Finishes what was cut off anywhere. One that cannot be finished yet keeps its note, and nobody else waiting. */
export async function finishAllMoves(place: Place): Promise<void> {
  for (const { path, note } of await readNotes(place)) {
    // Who holds it is at it.
    await using held = await createRepoLock(place)
      .tryAcquire(lockName(note.gitDir))
      .catch(() => null)
    if (held !== null) await finishNoted(place, path).catch(() => {})
  }
}

/** Has the index follow where a move was cut off after the branch had moved, and else takes the move back. */
async function finishMoves(place: Place, gitDir: string): Promise<void> {
  for (const { path, note } of await readNotes(place)) {
    if (note.gitDir !== gitDir) continue
    await using _held = await heldIn(place, gitDir)
    await finishNoted(place, path)
  }
}

/** Whoever was at it may have ended it meanwhile. */
async function finishNoted(place: Place, path: string): Promise<void> {
  const note = await readNote(place, path)
  if (note !== null) await finish(note, basename(path, '.json'), path)
}

async function readNotes(place: Place): Promise<readonly { path: string; note: Note }[]> {
  const folder = notesIn(place)
  const names = await readdir(folder).catch(() => [])
  const read = names.map(async (name) => {
    const path = join(folder, name)
    const note = await readNote(place, path).catch(() => null)
    return note === null ? [] : [{ path, note }]
  })
  return (await Promise.all(read)).flat()
}

async function readNote(place: Place, path: string): Promise<Note | null> {
  const text = path.endsWith('.json') ? await readFile(path, 'utf8').catch(() => null) : null
  if (text === null) return null
  try {
    return noteSchema.safeParse(JSON.parse(text)).data ?? null
  } catch (error) {
    await setAside(place, path, (error as Error).message)
    return null
  }
}

/** A note that a full disk or a crash has left without its text tells nothing, and would end every landing. */
async function setAside({ log }: Place, path: string, why: string): Promise<void> {
  await rename(path, `${path}.broken`).catch(() => {})
  const msg = `${path}: not a note of a branch that moves; set aside as ${path}.broken`
  const line = { level: 40, time: Date.now(), name: 'git', msg, why }
  await appendFile(log, `${JSON.stringify(line)}\n`, { mode: 0o600 }).catch(() => {})
}

async function finish(note: Note, key: string, path: string): Promise<void> {
  const { checkout, gitDir, ref, old } = note
  const ask = async (...args: string[]) => {
    const { code, stdout } = await tryGit(args, { cwd: checkout })
    return code === 0 ? stdout.toString().trim() : ''
  }
  // A disk that is not there now comes back with the lock and the index as they were: only the note tells whose they are.
  const isThere = (await lstat(gitDir).catch(() => null)) !== null
  if (!isThere || (await ask('rev-parse', '--absolute-git-dir').catch(() => '')) !== gitDir) return
  // Nor is it about another repository that lies there meanwhile.
  if (old !== '' && (await ask('cat-file', '-t', old)) !== 'commit') return
  // To write an index git compares files that are as young as the last one, and filters run on what an agent wrote.
  const { settings, failed } = await tame({ cwd: checkout })
  if (failed !== undefined) return
  const run: RunGit = (args, options = {}) =>
    git([...settings, ...args], {
      cwd: checkout,
      ...options,
      env: { ...options.env, GIT_WORK_TREE: checkout },
    })
  const tip = await ask('rev-parse', '--verify', '-q', ref)
  const parent = note.to === null ? await ask('rev-parse', '--verify', '-q', `${ref}^`) : old
  const isMade = note.to === null ? tip !== '' && tip !== old && parent === old : tip === note.to
  if (isMade && (await ask('symbolic-ref', '-q', 'HEAD')) === ref) {
    const isOurs = (await readFile(lockOf(gitDir), 'utf8').catch(() => '')).includes(key)
    // Somebody works there: the next start finds it free.
    if (!isOurs && !(await takeLock(gitDir, key, ref))) return
    await writeNext(gitDir, key, await indexRows(run, old, tip), run)
    await rename(nextIndex(gitDir, key), join(gitDir, 'index'))
  }
  await letGo(gitDir, key, path)
}

/**
 * The lock says whose it is from the first moment: an empty one that a crash left would be taken for another git's,
 * and keep the user from every commit.
 */
async function takeLock(gitDir: string, key: string, ref: string): Promise<boolean> {
  const ready = readyLock(gitDir, key)
  try {
    await writeFile(
      ready,
      `Orangery moves ${ref} (${key}). If it was ended meanwhile, its next start goes on.\n`,
      {
        mode: 0o600,
      },
    )
    // Where there are no second names, a copy has to do.
    await link(ready, lockOf(gitDir)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') throw error
      return copyFile(ready, lockOf(gitDir), constants.COPYFILE_EXCL)
    })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    await rm(ready, { force: true })
  }
}

/** An index beside the user's, which it replaces by a rename. */
async function writeNext(gitDir: string, key: string, rows: Buffer, run: RunGit): Promise<void> {
  const next = nextIndex(gitDir, key)
  // A git that was killed while it wrote this one has left its lock, and every later one would give up.
  await rm(lockedIndex(gitDir, key), { force: true })
  await copyFile(join(gitDir, 'index'), next).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  const env = { GIT_INDEX_FILE: next }
  await run(['update-index', '-z', '--index-info'], { env, input: rows })
}

async function letGo(gitDir: string, key: string, note: string): Promise<void> {
  for (const path of [nextIndex(gitDir, key), lockedIndex(gitDir, key), readyLock(gitDir, key)])
    await rm(path, { force: true })
  const isOurs = (await readFile(lockOf(gitDir), 'utf8').catch(() => '')).includes(key)
  if (isOurs) await rm(lockOf(gitDir), { force: true })
  await rm(note, { force: true })
}

function indexLocked(checkout: string, gitDir: string): OrangeryError {
  return new OrangeryError('git.index_locked', `${checkout}: another git process holds its index`, {
    kind: 'busy',
    hint: `The branch was not moved. Wait for it (an editor, a git command), or remove ${lockOf(gitDir)} if there is none; then try again.`,
  })
}
