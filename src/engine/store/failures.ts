import Sqlite from 'better-sqlite3'
import { OrangeryError } from '../../shared/errors.ts'

const sqliteCode = (error: unknown): string => (error instanceof Sqlite.SqliteError ? error.code : '')

export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error))

const words: Readonly<Record<string, string>> = {
  EEXIST: 'a file stands where their folder should be',
  ENOTDIR: 'a file stands where their folder should be',
  ENOENT: 'their folder cannot be made there',
  EISDIR: 'a folder stands where the database should be',
  EACCES: 'no permission',
  EPERM: 'no permission',
  EROFS: 'the file system is read-only',
  ENOSPC: 'no space is left there',
  EDQUOT: 'no space is left there',
}

/** What a failure of the database or its folder means to a person. Our own errors pass unchanged. */
export function storeFailure(path: string, error: unknown): unknown {
  if (error instanceof OrangeryError) return error
  const why = error instanceof Error ? error.message : String(error)
  const code = sqliteCode(error) || ((error as NodeJS.ErrnoException).code ?? '')
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return corrupt(path, why, error)
  if (isBusy(error)) {
    return new OrangeryError('store.busy', `${path}: another process keeps the records locked`, {
      kind: 'busy',
      hint: 'Try again; if it stays so, end the other Orangery process.',
      cause: error,
    })
  }
  if (/^(SQLITE_(READONLY|CANTOPEN|FULL|IOERR|PERM|AUTH|PROTOCOL)|E[A-Z]+$)/.test(code)) {
    return new OrangeryError(
      'store.unwritable',
      `${path}: cannot write the records (${words[code] ?? why})`,
      {
        kind: 'cannot_create',
        hint: 'Make the folder writable and leave room on its disk, or name another with ORANGERY_DATA_DIR.',
        cause: error,
      },
    )
  }
  return error
}

export function corrupt(path: string, why: string, cause?: unknown): OrangeryError {
  return new OrangeryError('store.corrupt', `${path}: the records are damaged (${why})`, {
    kind: 'internal',
    hint: 'Nothing was changed. Move the file away to start afresh, or put a backup (*.bak beside it) in its place.',
    cause,
  })
}
