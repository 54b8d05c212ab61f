import { spawn } from 'node:child_process'
import { OrangeryError } from '../../../shared/errors.ts'
import { minimalEnv } from '../../base/process.ts'
import { ownNamespace, type ThroughHolder } from '../../base/throughHolder.ts'
import { toBytes, toText, type BytePath } from '../bytePath.ts'

/** Names go over stdin: a command line can only carry text. */
function startThrough(through: ThroughHolder, command: readonly string[], path: Buffer) {
  const [file, ...args] = [...through.prefix, 'xargs', '-0', ...command]
  const child = spawn(file, args, { env: minimalEnv, stdio: ['pipe', 'pipe', 'ignore'] })
  child.stdin.on('error', () => {})
  child.stdin.end(Buffer.concat([path, Buffer.from([0])]))
  return child
}

export async function* streamUnreadable(
  root: string,
  path: BytePath,
  through: ThroughHolder = ownNamespace,
): AsyncGenerator<Buffer> {
  const child = startThrough(through, ['cat', '--'], Buffer.concat([Buffer.from(`${root}/`), toBytes(path)]))
  const ended = new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(null))
    child.on('close', resolve)
  })
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) yield chunk
  const code = await ended
  if (code === 0) return
  throw new Unreadable(path)
}

/** Neither we nor the holder of its sandbox may read it. */
export class Unreadable extends OrangeryError {
  constructor(path: BytePath) {
    super('changeset.unreadable', `cannot read ${toText(path)}: its mode or its owner forbids it`, {
      hint: 'Make it readable, or start the review again as the owner of the files.',
    })
  }
}
