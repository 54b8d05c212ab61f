import type { ChangedFile, Changeset } from '../../../shared/changeset.ts'
import { toBytes } from '../bytePath.ts'
import type { Entry } from '../manifest.ts'
import type { BlobReader } from '../objects/objects.ts'

/** A mail that `git am` and `git apply` take. `files`: those that are in it; `from`: who shall be its author. */
export function asMail(
  changeset: Changeset,
  files: readonly ChangedFile[],
  diff: Buffer,
  from: Sender,
): Buffer {
  const sum = (of: 'insertions' | 'deletions') => files.reduce((total, file) => total + file[of], 0)
  const subject = `Changeset ${changeset.id}: ${files.length} files, +${sum('insertions')} -${sum('deletions')}`
  const head = [
    `From ${'0'.repeat(40)} Mon Sep 17 00:00:00 2001`,
    `From: ${mailName(from.name)} <${from.email}>`,
    `Date: ${new Date(changeset.transitions[0]?.at ?? Date.now()).toUTCString().replace('GMT', '+0000')}`,
    `Subject: [PATCH] ${subject}`,
    '',
    `Revision ${changeset.revision}`,
    '---',
    '',
  ].join('\n')
  return Buffer.concat([Buffer.from(`${head}\n`), diff, Buffer.from('-- \norangery\n\n')])
}

export type Sender = { readonly name: string; readonly email: string }

/** As mails have it: plain words as they are, all else told in letters that every mail takes. */
function mailName(name: string): string {
  return /^[A-Za-z0-9 '-]+$/.test(name) ? name : `=?UTF-8?B?${Buffer.from(name).toString('base64')}?=`
}

/**
 * What the agent left, as a tar archive, piece by piece: a large one is never held. Deletions are not in it. Names and
 * sizes that tar's own fields cannot hold go into pax records.
 */
export async function* asTar(
  entries: readonly Entry[],
  folderOf: (root: string) => string,
  blobs: BlobReader,
): AsyncGenerator<Buffer> {
  for (const { root, path, result } of entries) {
    const folder = folderOf(root)
    const name = Buffer.concat([Buffer.from(folder === '' ? '' : `${folder}/`), toBytes(path)])
    if (result?.kind === 'directory')
      yield tarHead({ name: Buffer.concat([name, Buffer.from('/')]), mode: result.mode, type: '5' })
    if (result?.kind === 'symlink')
      yield tarHead({ name, mode: 0o777, type: '2', link: await blobs.read(result.oid) })
    if (result?.kind === 'file') {
      yield tarHead({ name, mode: result.mode, type: '0', size: result.size })
      yield* blobs.stream(result.oid)
      yield padding(result.size)
    }
  }
  yield Buffer.alloc(1024)
}

type TarItem = {
  readonly name: Buffer
  readonly mode: number
  readonly type: '0' | '2' | '5' | 'x'
  readonly size?: number
  readonly link?: Buffer
}
const largestField = 8 * 1024 ** 3 - 1

function tarHead(item: TarItem): Buffer {
  const { name, size = 0, link = Buffer.alloc(0) } = item
  const records = Buffer.concat([
    ...(name.length > 100 ? [paxRecord('path', name)] : []),
    ...(link.length > 100 ? [paxRecord('linkpath', link)] : []),
    ...(size > largestField ? [paxRecord('size', Buffer.from(String(size)))] : []),
  ])
  const head = tarHeader({ ...item, size: size > largestField ? 0 : size })
  if (records.length === 0) return head
  const above = tarHeader({ name: Buffer.from('pax'), mode: 0o644, type: 'x', size: records.length })
  return Buffer.concat([above, records, padding(records.length), head])
}

function paxRecord(key: string, value: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')])
  let length = body.length + 1
  while (String(length).length + body.length !== length) length = String(length).length + body.length
  return Buffer.concat([Buffer.from(String(length)), body])
}

function padding(size: number): Buffer {
  return Buffer.alloc((512 - (size % 512)) % 512)
}

function tarHeader({ name, mode, type, size = 0, link = Buffer.alloc(0) }: TarItem): Buffer {
  const header = Buffer.alloc(512)
  const octal = (value: number, at: number, width: number) =>
    header.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1')
  name.copy(header, 0, 0, 100)
  octal(mode & 0o777, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(0, 136, 12)
  header.fill(' ', 148, 156)
  header.write(type, 156, 'latin1')
  link.copy(header, 157, 0, 100)
  header.write('ustar\x0000', 257, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}
