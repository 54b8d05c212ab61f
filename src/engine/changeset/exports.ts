import type { Changeset } from '../../shared/changeset.ts'
import { toBytes } from './bytePath.ts'
import type { Entry } from './manifest.ts'
import type { BlobReader } from './objects.ts'

/** A mail that `git am` and `git apply` take. */
export function asMail(changeset: Changeset, diff: Buffer): Buffer {
  const subject = `Changeset ${changeset.id}: ${changeset.files.length} files, +${changeset.insertions} -${changeset.deletions}`
  const head = [
    `From ${'0'.repeat(40)} Mon Sep 17 00:00:00 2001`,
    'From: Orangery <orangery@localhost>',
    `Date: ${new Date(changeset.transitions[0]?.at ?? Date.now()).toUTCString().replace('GMT', '+0000')}`,
    `Subject: [PATCH] ${subject}`,
    '',
    `Revision ${changeset.revision}`,
    '---',
    '',
  ].join('\n')
  return Buffer.concat([Buffer.from(`${head}\n`), diff, Buffer.from('-- \norangery\n\n')])
}

/** What the agent left, as a tar archive; deletions are not in it. Names that tar's own fields cannot hold go into pax records. */
export async function asTar(
  entries: readonly Entry[],
  folderOf: (root: string) => string,
  blobs: BlobReader,
): Promise<Buffer> {
  const parts: Buffer[] = []
  const add = (name: Buffer, mode: number, type: '0' | '2' | '5', content: Buffer, link: Buffer) => {
    const records = [
      ...(name.length > 100 ? [paxRecord('path', name)] : []),
      ...(link.length > 100 ? [paxRecord('linkpath', link)] : []),
    ]
    if (records.length > 0) {
      const body = Buffer.concat(records)
      parts.push(tarHeader(Buffer.from('pax'), 0o644, 'x', body.length, Buffer.alloc(0)), padded(body))
    }
    parts.push(tarHeader(name, mode, type, content.length, link), padded(content))
  }
  const nothing = Buffer.alloc(0)
  for (const { root, path, result } of entries) {
    const folder = folderOf(root)
    const name = Buffer.concat([Buffer.from(folder === '' ? '' : `${folder}/`), toBytes(path)])
    if (result?.kind === 'directory')
      add(Buffer.concat([name, Buffer.from('/')]), result.mode, '5', nothing, nothing)
    if (result?.kind === 'symlink') add(name, 0o777, '2', nothing, await blobs.read(result.oid))
    if (result?.kind === 'file') add(name, result.mode, '0', await blobs.read(result.oid), nothing)
  }
  return Buffer.concat([...parts, Buffer.alloc(1024)])
}

function paxRecord(key: string, value: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from('\n')])
  let length = body.length + 1
  while (String(length).length + body.length !== length) length = String(length).length + body.length
  return Buffer.concat([Buffer.from(String(length)), body])
}

function padded(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}

function tarHeader(name: Buffer, mode: number, type: string, size: number, link: Buffer): Buffer {
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
