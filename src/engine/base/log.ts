import { appendFile, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ensurePrivateDir } from './files.ts'
import { layout } from './paths.ts'

const largest = 4 * 1024 * 1024

function describe(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: String(error) }
  const cause = error.cause === undefined ? {} : { cause: describe(error.cause) }
  return { name: error.name, message: error.message, stack: error.stack, ...cause }
}

/**
 * Keeps what was not foreseen, with its stack, in the log of the data folder; one JSON object a line. Never
 * throws: whoever logs has an error of his own to tell. The log before the current one is kept beside it.
 */
export async function logUnexpected(dataDir: string, error: unknown): Promise<void> {
  const file = layout(dataDir).log
  const line = { at: new Date().toISOString(), pid: process.pid, error: describe(error) }
  try {
    await ensurePrivateDir(dirname(file))
    const size = await stat(file).then(
      (found) => found.size,
      () => 0,
    )
    if (size > largest) await rename(file, `${file}.1`)
    await appendFile(file, `${JSON.stringify(line)}\n`, { mode: 0o600 })
  } catch {
    // A data folder that cannot be written is told by the command itself.
  }
}
