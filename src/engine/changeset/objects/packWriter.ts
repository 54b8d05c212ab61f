import { createHash, hash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { constants as zlib, crc32, createDeflate, deflate, deflateSync } from 'node:zlib'
import { createFlags, ensureFolder, type Disk } from '../disk.ts'

const compress = promisify(deflate)
const types = { commit: 1, tree: 2, blob: 3, tag: 4 } as const
export type ObjectType = keyof typeof types

type Packed = { readonly oid: string; readonly bytes: Buffer }
/** A pack in memory grows to this before it is written; one large file is streamed into a pack of its own. */
const packLimit = 24 * 1024 * 1024

/**
 * Writes git objects into packs of a bare repository, without a process per object and without a shell, from
 * bytes in memory or from a stream of known length. Nothing is visible to git before its index is in place.
 */
export class PackWriter {
  readonly #folder: string
  readonly #disk: Disk
  readonly #known = new Set<string>()
  readonly #durable: boolean
  #waiting: Packed[] = []
  #size = 0

  /** `durable`: on disk for good when `flush` returns; without it, a power loss may cost what was added. */
  constructor(gitDir: string, disk: Disk, durable = true) {
    this.#folder = join(gitDir, 'objects', 'pack')
    this.#disk = disk
    this.#durable = durable
  }

  async add(type: ObjectType, content: Uint8Array): Promise<string> {
    const oid = hash('sha1', Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]))
    if (this.#known.has(oid)) return oid
    this.#known.add(oid)
    const body = await squeezed(content)
    const bytes = Buffer.concat([entryHeader(type, content.length), body])
    this.#waiting.push({ oid, bytes })
    this.#size += bytes.length
    if (this.#size > packLimit) await this.flush()
    return oid
  }

  /** Streams one blob of exactly `size` bytes; null when the stream had another length. */
  async addStream(size: number, chunks: AsyncIterable<Buffer>): Promise<string | null> {
    await ensureFolder(this.#disk, this.#folder)
    const temporary = this.#temporaryName()
    const handle = await this.#disk.open(temporary, createFlags, 0o444)
    let kept = false
    try {
      const digest = createHash('sha1').update(`blob ${size}\0`)
      const packDigest = createHash('sha1')
      let crc = 0
      const head = packHeader(1)
      const header = entryHeader('blob', size)
      const emit = async (bytes: Buffer) => {
        packDigest.update(bytes)
        await this.#disk.write(handle, bytes, null)
      }
      await emit(head)
      crc = crc32(header)
      await emit(header)
      let length = 0
      const source = chunks[Symbol.asyncIterator]()
      const first = await source.next()
      async function* counted() {
        for (let next = first; next.done !== true; next = await source.next()) {
          length += next.value.length
          digest.update(next.value)
          yield next.value
        }
      }
      const squeeze = createDeflate({ level: worthwhileLevel(first.value), chunkSize: 256 * 1024 })
      const { pipeline } = await import('node:stream/promises')
      await pipeline(counted, squeeze, async (compressed) => {
        for await (const bytes of compressed as AsyncIterable<Buffer>) {
          crc = crc32(bytes, crc)
          await emit(bytes)
        }
      })
      if (length !== size) return null
      const checksum = packDigest.digest()
      await this.#disk.write(handle, checksum, null)
      const oid = digest.digest('hex')
      if (this.#durable) await this.#disk.sync(handle)
      await this.#publish(temporary, checksum, [{ oid, crc, offset: head.length }])
      kept = true
      return oid
    } finally {
      await this.#disk.close(handle)
      if (!kept) await this.#disk.unlink(temporary).catch(() => {})
    }
  }

  /** Puts everything added so far on disk. */
  async flush(): Promise<void> {
    const objects = this.#waiting
    if (objects.length === 0) return
    this.#waiting = []
    this.#size = 0
    await ensureFolder(this.#disk, this.#folder)
    const rows: { oid: string; crc: number; offset: number }[] = []
    let offset = 12
    for (const { oid, bytes } of objects) {
      rows.push({ oid, crc: crc32(bytes), offset })
      offset += bytes.length
    }
    const body = Buffer.concat([packHeader(objects.length), ...objects.map((object) => object.bytes)])
    const checksum = createHash('sha1').update(body).digest()
    const temporary = this.#temporaryName()
    await this.#writeWhole(temporary, Buffer.concat([body, checksum]))
    await this.#publish(temporary, checksum, rows)
  }

  async #publish(
    temporary: string,
    checksum: Buffer,
    rows: { oid: string; crc: number; offset: number }[],
  ): Promise<void> {
    const name = join(this.#folder, `pack-${checksum.toString('hex')}`)
    const index = this.#temporaryName()
    await this.#writeWhole(index, packIndex(rows, checksum))
    // git looks for the index: the pack must be there first.
    await this.#disk.rename(temporary, `${name}.pack`)
    await this.#disk.rename(index, `${name}.idx`)
  }

  async #writeWhole(path: string, bytes: Buffer): Promise<void> {
    const handle = await this.#disk.open(path, createFlags, 0o444)
    try {
      await this.#disk.write(handle, bytes, null)
      if (this.#durable) await this.#disk.sync(handle)
    } finally {
      await this.#disk.close(handle)
    }
  }

  #temporaryName(): string {
    return join(this.#folder, `tmp_${process.pid}_${randomBytes(8).toString('hex')}`)
  }
}

/**
 * A small object is compressed sooner than a thread has heard of it, and a tiny one is not worth setting up a
 * compressor for: that took most of a capture of many small files.
 */
async function squeezed(content: Uint8Array): Promise<Buffer> {
  if (content.length <= 4 * 1024) return stored(content)
  return content.length <= 32 * 1024
    ? deflateSync(content, { level: 1, windowBits: 13, memLevel: 6 })
    : compress(content, { level: 1 })
}

/** A zlib stream of one block that says "as it is", with its checksum (RFC 1950, 1951). */
function stored(content: Uint8Array): Buffer {
  const stream = Buffer.allocUnsafe(content.length + 11)
  stream.writeUInt16BE(0x7801, 0)
  stream.writeUInt8(1, 2)
  stream.writeUInt16LE(content.length, 3)
  stream.writeUInt16LE(content.length ^ 0xffff, 5)
  stream.set(content, 7)
  let [low, high] = [1, 0]
  // Neither sum outgrows 32 bits within 4 KB: one remainder at the end is enough.
  for (const byte of content) {
    low += byte
    high += low
  }
  stream.writeUInt16BE(high % 65521, content.length + 7)
  stream.writeUInt16BE(low % 65521, content.length + 9)
  return stream
}

/** Media and archives do not get smaller, only slower. */
function worthwhileLevel(sample: Buffer | undefined): number {
  const start = sample?.subarray(0, 64 * 1024) ?? Buffer.alloc(0)
  const gain = deflateSync(start, { level: 1 }).length < start.length * 0.9
  return gain ? zlib.Z_BEST_SPEED : zlib.Z_NO_COMPRESSION
}

function packHeader(count: number): Buffer {
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
  header.writeUInt32BE(count, 8)
  return header
}

function entryHeader(type: ObjectType, size: number): Buffer {
  const bytes: number[] = []
  let rest = BigInt(size)
  let byte = (types[type] << 4) | Number(rest & 15n)
  rest >>= 4n
  while (rest > 0n) {
    bytes.push(byte | 0x80)
    byte = Number(rest & 0x7fn)
    rest >>= 7n
  }
  bytes.push(byte)
  return Buffer.from(bytes)
}

/** Version 2 of git's pack index. Our packs in memory stay far below 2 GB and streamed ones hold one object. */
function packIndex(rows: readonly { oid: string; crc: number; offset: number }[], checksum: Buffer): Buffer {
  const sorted = rows.toSorted((a, b) => (a.oid < b.oid ? -1 : 1))
  const fanout = Buffer.alloc(256 * 4)
  const counts = new Uint32Array(256)
  for (const row of sorted) {
    const first = parseInt(row.oid.slice(0, 2), 16)
    counts[first] = (counts[first] ?? 0) + 1
  }
  let total = 0
  for (let first = 0; first < 256; first += 1) {
    total += counts[first] ?? 0
    fanout.writeUInt32BE(total, first * 4)
  }
  const crcs = Buffer.alloc(sorted.length * 4)
  const offsets = Buffer.alloc(sorted.length * 4)
  sorted.forEach((row, at) => {
    crcs.writeUInt32BE(row.crc >>> 0, at * 4)
    offsets.writeUInt32BE(row.offset, at * 4)
  })
  const names = Buffer.from(sorted.map((row) => row.oid).join(''), 'hex')
  const body = Buffer.concat([
    Buffer.from('\xfftOc\0\0\0\x02', 'latin1'),
    fanout,
    names,
    crcs,
    offsets,
    checksum,
  ])
  return Buffer.concat([body, createHash('sha1').update(body).digest()])
}
