import { appendFileSync, writeFileSync } from 'node:fs'
import { chmod, chown, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What only root can put on the stage and an ordinary user can attack with. */
export type Prepared = {
  /** In /run, a socket at which everybody is welcome, and a file with a byte for each who came. */
  readonly socket: string
  readonly visits: string
  /** A folder with a set-uid program of another user. */
  readonly programs: string
}

const variable = 'ORANGERY_ESCAPE_PREPARED'

/** For the cases; null where an ordinary user runs the suite by himself. */
export const prepared: Prepared | null = JSON.parse(process.env[variable] ?? 'null') as Prepared | null

export const otherUser = 65534

/** `cat` as a set-uid program of a user who is neither root nor us. */
export async function plantProgram(folder: string): Promise<void> {
  const program = join(folder, 'reader')
  await copyFile('/usr/bin/cat', program)
  await chown(program, otherUser, otherUser)
  await chmod(program, 0o4755)
}

/** Root sets the stage for an ordinary user; the variable leads him to it. */
export async function prepare(): Promise<AsyncDisposable & { readonly env: Record<string, string> }> {
  await using made = new AsyncDisposableStack()
  const folder = async (parent: string) => {
    const path = await mkdtemp(join(parent, 'orangery-escape-'))
    made.defer(() => rm(path, { recursive: true, force: true }))
    await chmod(path, 0o755)
    return path
  }
  const inRun = await folder('/run')
  const programs = await folder(tmpdir())
  await plantProgram(programs)
  const socket = join(inRun, 's')
  const visits = join(inRun, 'visits')
  writeFileSync(visits, '')
  const server = createServer((visitor) => {
    appendFileSync(visits, '.')
    visitor.on('error', () => {})
    visitor.resume()
    visitor.end('welcome\n')
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve))
  made.defer(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  await chmod(socket, 0o777)
  const stage: Prepared = { socket, visits, programs }
  const all = made.move()
  return {
    env: { [variable]: JSON.stringify(stage) },
    [Symbol.asyncDispose]: () => all[Symbol.asyncDispose](),
  }
}
