import { closeSync, constants, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ReadStream } from 'node:tty'
import { expect, test } from 'vitest'
import { startSandbox } from './start.ts'
import { makeGround } from '../fixture.ts'
import { detectHost } from '../host/host.ts'
import { planSandbox } from '../plan/plan.ts'

type NativePty = {
  open(columns: number, rows: number): { master: number; slave: number; pty: string }
  resize(master: number, columns: number, rows: number): void
}
const require = createRequire(import.meta.url)
const native = (
  require('@lydell/node-pty/requireBinary.js') as { requireBinary(file: string): NativePty }
).requireBinary('pty.node')

/** A terminal whose screen is kept as text, and a person who types and waits. */
class Person implements Disposable {
  readonly slave: number
  readonly #master: number
  readonly #stream: ReadStream
  #screen = ''

  constructor() {
    const pair = native.open(80, 24)
    this.#master = pair.master
    this.slave = openSync(pair.pty, constants.O_RDWR | constants.O_NOCTTY)
    closeSync(pair.slave)
    this.#stream = new ReadStream(pair.master)
    this.#stream.on('data', (chunk) => (this.#screen += chunk.toString()))
    this.#stream.on('error', () => {})
  }

  async sees(text: string | RegExp): Promise<void> {
    await expect
      .poll(() => this.#screen, { timeout: 10_000, interval: 10 })
      .toMatch(
        typeof text === 'string' ? new RegExp(text.replaceAll(/[$()*+.?[\]^{|}\\]/g, String.raw`\$&`)) : text,
      )
    this.#screen = ''
  }

  types(text: string): void {
    this.#stream.write(text)
  }

  /** Bash names a job before it hands it the terminal: until then a key is for bash, which does not mind. */
  async typesUntil(key: string, text: string): Promise<void> {
    const again = setInterval(() => this.types(key), 250)
    this.types(key)
    await this.sees(text).finally(() => clearInterval(again))
  }

  resize(columns: number, rows: number): void {
    native.resize(this.#master, columns, rows)
  }

  [Symbol.dispose](): void {
    this.#stream.destroy()
  }
}

for (const level of [1, 0] as const) {
  test(`an interactive bash at level ${level} has job control, Ctrl-C, resize and /dev/tty`, async () => {
    await using ground = await makeGround()
    const host = await detectHost(ground.dataDir)
    using person = new Person()
    const request = ground.request(['bash', '--norc', '--noprofile', '-i'], {
      level,
      network: level === 0 ? 'host' : 'none',
      terminal: true,
      env: { PS1: 'ready> ', TERM: 'dumb' },
    })
    const io = { stdin: person.slave, stdout: person.slave, stderr: person.slave }
    await using sandbox = await startSandbox(planSandbox(request, host), io)
    closeSync(person.slave)
    sandbox.release()
    await person.sees('ready> ')
    person.types('stty size\r')
    await person.sees('24 80')
    person.resize(132, 50)
    person.types('stty size\r')
    await person.sees('50 132')
    // It speaks once it has the terminal: Ctrl-C before that is the shell's own.
    person.types('sh -c "echo st""arted; exec sleep 1000"\r')
    await person.sees('started')
    person.types('\x03')
    await person.sees(/\^C[\s\S]*ready> /)
    person.types('echo code=$?\r')
    await person.sees('code=130')
    person.types('sleep 1000 & jobs\r')
    await person.sees(/\[1\]\+\s+Running\s+sleep 1000/)
    person.types('fg\r')
    await person.sees('sleep 1000')
    await person.typesUntil('\x1a', 'Stopped')
    person.types('echo to the tty >/dev/tty\r')
    await person.sees(/tty\r\nto the tty/)
    // A shell that still counts a stopped job does not exit at once.
    person.types('kill %1; while [ -n "$(jobs -s)" ]; do sleep 0.02; done; echo all g""one\r')
    await person.sees('all gone')
    person.types('exit 5\r')
    expect(await sandbox.ended).toMatchObject({ exitCode: 5, signal: null })
  })
}
