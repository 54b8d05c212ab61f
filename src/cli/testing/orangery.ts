import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type StartOptions = {
  readonly env?: Record<string, string>
  readonly cwd?: string
  /** A command that starts ours, e.g. as another user. */
  readonly through?: readonly string[]
}
type RunOptions = StartOptions & { readonly input?: string }

export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** A place of its own for the command line: data, configuration and one folder to work in. */
export class Place implements Disposable {
  readonly home = mkdtempSync(join(tmpdir(), 'orangery-cli-'))
  readonly dataDir = join(this.home, 'data')
  readonly folder = join(this.home, 'work')
  readonly temporary = join(this.home, 'tmp')
  readonly env: Record<string, string>
  readonly command: readonly string[]

  /** From source, or through the launcher that people start. */
  constructor(form: 'source' | 'launcher' = 'source') {
    const root = join(import.meta.dirname, '..', '..', '..')
    this.command =
      form === 'source' ? [process.execPath, join(root, 'src/cli/index.ts')] : [join(root, 'bin/orangery')]
    for (const name of ['data', 'work', 'config', 'run', 'tmp']) {
      mkdirSync(join(this.home, name), { mode: 0o700 })
    }
    this.env = {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      HOME: this.home,
      ORANGERY_DATA_DIR: this.dataDir,
      XDG_CONFIG_HOME: join(this.home, 'config'),
      // Shared between places: compiling our code anew each time would be most of a test's time.
      XDG_CACHE_HOME: join(root, '.cache'),
      XDG_RUNTIME_DIR: join(this.home, 'run'),
      TMPDIR: this.temporary,
    }
  }

  /** Runs the real command line as a child to its end. */
  orangery(...args: string[]): Promise<Ran> {
    return this.orangeryWith({}, ...args)
  }

  orangeryWith({ input, ...options }: RunOptions, ...args: string[]): Promise<Ran> {
    const child = this.start(options, ...args)
    child.stdin.end(input)
    return ended(child)
  }

  /** Starts the real command line as a child. */
  start(options: StartOptions, ...args: string[]): ChildProcessWithoutNullStreams {
    const [file = '', ...before] = [...(options.through ?? []), ...this.command]
    return spawn(file, [...before, ...args], {
      cwd: options.cwd ?? this.folder,
      env: { ...this.env, ...options.env },
      stdio: 'pipe',
    })
  }

  [Symbol.dispose](): void {
    // Who was killed may have left somebody who tidies up meanwhile.
    const remove = () => rmSync(this.home, { recursive: true, force: true, maxRetries: 5 })
    try {
      remove()
    } catch {
      // What an overlay closed (its `work/work`) is open to root alone.
      spawnSync('chmod', ['-R', 'u+rwx', '--', this.home])
      remove()
    }
  }
}

/** What a child said and how it ended. */
export function ended(child: ChildProcessWithoutNullStreams): Promise<Ran> {
  const out: Buffer[] = []
  const err: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() })
    })
  })
}
