import { closeSync, constants, openSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'

// O_TMPFILE with O_DIRECTORY, which Node does not name; the same on x86-64 and arm64 but for O_DIRECTORY.
const nameless = 0o20000000 | constants.O_DIRECTORY | constants.O_RDWR

function openNameless(): number {
  for (const folder of ['/dev/shm', tmpdir()]) {
    try {
      return openSync(folder, nameless, 0o600)
    } catch {
      // Not every file system can.
    }
  }
  const path = join(tmpdir(), `.orangery-${randomBytes(8).toString('hex')}`)
  const descriptor = openSync(path, 'wx+', 0o600)
  unlinkSync(path)
  return descriptor
}

/**
 * A file without a name, to hand bytes to a child: cheaper than a pipe with a stream around it, and gone with
 * its last descriptor whatever happens to us. It lives in memory and its calls do not wait for a disk, which
 * is why they are synchronous. No process the agent can see may keep one open: /proc would let it be grown.
 */
export class NamelessFile implements Disposable {
  readonly descriptor: number
  #isOpen = true

  constructor(content: string | Uint8Array = '') {
    this.descriptor = openNameless()
    const bytes = Buffer.from(content)
    // At a position: the offset the child starts reading at stays 0.
    if (bytes.length > 0) writeSync(this.descriptor, bytes, 0, bytes.length, 0)
  }

  [Symbol.dispose](): void {
    if (this.#isOpen) closeSync(this.descriptor)
    this.#isOpen = false
  }
}
