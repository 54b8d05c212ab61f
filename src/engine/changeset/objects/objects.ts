import { spawn, type ChildProcess } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { randomBytes } from 'node:crypto'
import { OrangeryError } from '../../../shared/errors.ts'
import { gitCommand } from '../../base/git.ts'
import { ensureFolder, removeTree, type Disk } from '../disk.ts'
import type { PackWriter } from './packWriter.ts'
import type { BytePath } from '../bytePath.ts'

/** Files above this are compared as binaries and streamed, never held in memory. */
export const largeFile = 16 * 1024 * 1024
export const largeFileConfig = ['-c', `core.bigFileThreshold=${largeFile}`]

/** Makes the private bare repository; two processes may do so at once. */
export async function ensureRepository(gitDir: string, disk: Disk): Promise<void> {
  if (await isThere(gitDir)) return
  await ensureFolder(disk, dirname(gitDir))
  const temporary = `${gitDir}.${randomBytes(4).toString('hex')}`
  try {
    await disk.makeStore(temporary)
    await disk.rename(temporary, gitDir)
  } catch (error) {
    await removeTree(disk, temporary).catch(() => {})
    if (!(await isThere(gitDir))) throw error
  }
}
const isThere = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )

export type TreeItem = {
  readonly path: BytePath
  readonly mode: '100644' | '100755' | '120000' | '160000'
  readonly oid: string
}

/** Writes nested tree objects; takes every name a file system does. */
export async function writeTree(writer: PackWriter, items: readonly TreeItem[]): Promise<string> {
  type Node = Map<string, TreeItem | Node>
  const top: Node = new Map()
  for (const item of items) {
    const names = item.path.split('/')
    const last = names.pop() ?? ''
    let node = top
    for (const name of names) {
      let next = node.get(name)
      if (!(next instanceof Map)) {
        next = new Map()
        node.set(name, next)
      }
      node = next
    }
    node.set(last, item)
  }
  const write = async (node: Node): Promise<string> => {
    const rows: { sort: string; bytes: Buffer }[] = []
    for (const [name, child] of node) {
      const isFolder = child instanceof Map
      const oid = isFolder ? await write(child) : child.oid
      const mode = isFolder ? '40000' : child.mode
      rows.push({
        sort: isFolder ? `${name}/` : name,
        bytes: Buffer.concat([Buffer.from(`${mode} ${name}\0`, 'latin1'), Buffer.from(oid, 'hex')]),
      })
    }
    rows.sort((a, b) => (a.sort < b.sort ? -1 : 1))
    return writer.add('tree', Buffer.concat(rows.map((row) => row.bytes)))
  }
  return write(top)
}

/** Reads blobs through one `git cat-file`, in order, each as a stream. Ask for the next only when one is read. */
export class BlobReader implements AsyncDisposable {
  readonly #gitDir: string
  /** Started by the first question: often there is none. */
  #git: { readonly child: ChildProcess; readonly chunks: AsyncIterator<Buffer> } | undefined
  #rest: Buffer = Buffer.alloc(0)
  #asked = 0

  constructor(gitDir: string) {
    this.#gitDir = gitDir
  }

  #start() {
    const { file, args, env } = gitCommand([...largeFileConfig, 'cat-file', '--batch'], {
      gitDir: this.#gitDir,
    })
    const child = spawn(file, args, { env, stdio: ['pipe', 'pipe', 'ignore'] })
    child.on('error', () => {})
    child.stdin.on('error', () => {})
    return { child, chunks: (child.stdout as AsyncIterable<Buffer>)[Symbol.asyncIterator]() }
  }

  /** Asks for what will be read next, in this order: git does not have to wait for us nor we for git. */
  askAhead(oids: readonly string[]): void {
    if (oids.length === 0) return
    this.#git ??= this.#start()
    this.#git.child.stdin?.write(`${oids.join('\n')}\n`)
    this.#asked += oids.length
  }

  async *stream(oid: string): AsyncIterable<Buffer> {
    if (this.#asked === 0) this.askAhead([oid])
    this.#asked -= 1
    const header = await this.#line()
    const match = /^([0-9a-f]{40}) blob (\d+)$/.exec(header)
    if (match === null || match[1] !== oid) throw missingBlob(oid, header)
    let left = Number(match[2])
    while (left > 0) {
      const chunk = await this.#next()
      const part = chunk.subarray(0, left)
      left -= part.length
      this.#rest = chunk.subarray(part.length)
      yield part
    }
    const end = await this.#next()
    this.#rest = end.subarray(1)
  }

  async read(oid: string): Promise<Buffer> {
    const chunks: Buffer[] = []
    for await (const chunk of this.stream(oid)) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#git?.child.stdin?.end()
    this.#git?.child.kill('SIGKILL')
    await this.#git?.chunks.return?.()
  }

  async #line(): Promise<string> {
    let line = Buffer.alloc(0)
    for (;;) {
      const chunk = await this.#next()
      const cut = chunk.indexOf(10)
      if (cut !== -1) {
        this.#rest = chunk.subarray(cut + 1)
        return Buffer.concat([line, chunk.subarray(0, cut)]).toString('latin1')
      }
      line = Buffer.concat([line, chunk])
    }
  }
  async #next(): Promise<Buffer> {
    if (this.#rest.length > 0) {
      const chunk = this.#rest
      this.#rest = Buffer.alloc(0)
      return chunk
    }
    const { value, done = true } = (await this.#git?.chunks.next()) ?? {}
    if (done || value === undefined)
      throw new OrangeryError('changeset.store_unreadable', 'cannot read stored content: git cat-file ended')
    return value
  }
}

function missingBlob(oid: string, said: string): OrangeryError {
  return new OrangeryError('changeset.blob_missing', `cannot read stored content ${oid}: ${said}`, {
    hint: 'The store under the data folder was damaged or cleaned up by hand.',
  })
}
