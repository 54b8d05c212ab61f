import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** A place of its own for the command line: data, configuration and one folder to work in. */
export class Place implements Disposable {
  readonly home = mkdtempSync(join(tmpdir(), 'orangery-cli-'))
  readonly dataDir = join(this.home, 'data')
  readonly folder = join(this.home, 'work')
  readonly env: Record<string, string>

  constructor() {
    for (const name of ['data', 'work', 'config', 'cache', 'run']) {
      mkdirSync(join(this.home, name), { mode: 0o700 })
    }
    this.env = {
      PATH: process.env['PATH'] ?? '/usr/bin:/bin',
      HOME: this.home,
      ORANGERY_DATA_DIR: this.dataDir,
      XDG_CONFIG_HOME: join(this.home, 'config'),
      XDG_CACHE_HOME: process.env['XDG_CACHE_HOME'] ?? join(tmpdir(), 'orangery-cli-cache'),
      XDG_RUNTIME_DIR: join(this.home, 'run'),
    }
  }

  /** Runs the real command line as a child, from source. */
  orangery(...args: string[]): Promise<Ran> {
    return this.orangeryWith({}, ...args)
  }

  orangeryWith(
    options: { input?: string; env?: Record<string, string>; cwd?: string },
    ...args: string[]
  ): Promise<Ran> {
    const entry = join(import.meta.dirname, '..', 'index.ts')
    const child = spawn(process.execPath, [entry, ...args], {
      cwd: options.cwd ?? this.folder,
      env: { ...this.env, ...options.env },
      stdio: 'pipe',
    })
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk))
    child.stdin.end(options.input)
    return new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code) => {
        resolve({ code, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() })
      })
    })
  }

  [Symbol.dispose](): void {
    rmSync(this.home, { recursive: true, force: true })
  }
}
