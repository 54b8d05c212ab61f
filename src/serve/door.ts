import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'

const digest = (text: string) => createHash('sha256').update(text).digest()
const secret = () => randomBytes(32).toString('base64url')

/**
 * Who may come in: whoever can read a file that only the user can read. Its token opens the door once and becomes a
 * cookie no script can read; the next token is written at once, so that a second browser needs the file again.
 */
export class Door {
  readonly cookieName: string
  readonly #file: string
  readonly #sessions = new Set<string>()
  #token: string | null = null

  constructor(file: string, port: number) {
    this.#file = file
    // Cookies know no ports: two hosts on one machine would otherwise log each other out.
    this.cookieName = `orangery-${port}`
  }

  get token(): string | null {
    return this.#token
  }

  async renew(): Promise<string> {
    const token = secret()
    await mkdir(dirname(this.#file), { recursive: true, mode: 0o700 })
    const fresh = `${this.#file}.${process.pid}`
    await writeFile(fresh, `${token}\n`, { mode: 0o600, flag: 'wx' })
    await rename(fresh, this.#file)
    this.#token = token
    return token
  }

  /** Trades the token for a session; null when it is not the one, or was used already. */
  enter(token: string): string | null {
    if (this.#token === null || !timingSafeEqual(digest(token), digest(this.#token))) return null
    this.#token = null
    const session = secret()
    this.#sessions.add(digest(session).toString('hex'))
    return `${this.cookieName}=${session}; Path=/; HttpOnly; SameSite=Strict`
  }

  admits(cookieHeader: string | undefined): boolean {
    for (const pair of (cookieHeader ?? '').split(';')) {
      const [name, value] = pair.trim().split('=', 2)
      if (name !== this.cookieName || value === undefined) continue
      if (this.#sessions.has(digest(value).toString('hex'))) return true
    }
    return false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#token = null
    this.#sessions.clear()
    await rm(this.#file, { force: true })
  }
}
