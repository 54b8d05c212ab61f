import { spawn } from 'node:child_process'
import { entryCommand, entryEnv } from '../../base/entry.ts'
import type { Places } from '../parts.ts'

/** A pipe from us that ends without a word means that we were killed. */
const script = 'read -r word && exit 0; exec "$@"'

/**
 * Leaves a shell behind that waits for the end of this process, at the cost of some hundred kilobytes, and has
 * somebody tidy up if it was killed: no file, no lock and no row that claims to run stays until the next command.
 */
export function leaveCaretaker({ dataDir, configDir }: Places): Disposable {
  const child = spawn(
    '/bin/sh',
    ['-c', script, 'orangery-caretaker', ...entryCommand('caretaker'), dataDir, configDir],
    // A session of its own: what kills our process group is just what it is here for.
    { detached: true, stdio: ['pipe', 'ignore', 'ignore'], env: { ...process.env, ...entryEnv }, cwd: '/' },
  )
  // Without one, whoever starts next tidies up.
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  child.unref()
  ;(child.stdin as unknown as { unref?(): void }).unref?.()
  return { [Symbol.dispose]: () => void child.stdin.end('done\n') }
}
