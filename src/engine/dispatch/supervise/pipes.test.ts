import { closeSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { makePipes } from './pipes.ts'

test.runIf(process.platform === 'linux')(
  'what was written before a program opened its input anew is there for it, and then the end',
  async () => {
    const pipes = await makePipes(tmpdir(), 2)
    for (const [index, { read, write }] of pipes.entries()) {
      const end = await open(`/proc/self/fd/${write}`, 'w')
      await end.write(`text ${index}`)
      closeSync(write)
      await end.close()
      // What `cat /dev/stdin` does: a pipe with a name would wait here for a writer that has gone.
      expect(await readFile(`/proc/self/fd/${read}`, 'utf8')).toBe(`text ${index}`)
      closeSync(read)
    }
  },
)
