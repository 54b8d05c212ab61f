/** Well-formed UTF-8, one character or a run of plain ones, as bytes that were read as Latin-1; or a byte that is not. */
const pieces =
  // oxlint-disable-next-line no-control-regex -- bytes, not text
  /[\x00-\x7f]+|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|([\x80-\xff])/g

/** Half of a pair that no well-formed text has by itself: stands for a byte. */
const firstStray = 0xdc00
const strays = /(?<![\ud800-\udbff])[\udc80-\udcff]/

/** A file's text. What is not UTF-8, say a comment from an old editor, is kept so that `bytesOf` gives it back. */
export function textOf(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  if (!text.includes('\ufffd')) return text
  return bytes
    .toString('latin1')
    .replaceAll(pieces, (piece, stray: string | undefined) =>
      stray === undefined
        ? Buffer.from(piece, 'latin1').toString('utf8')
        : String.fromCharCode(firstStray + stray.charCodeAt(0)),
    )
}

export function bytesOf(text: string): Buffer {
  if (!strays.test(text)) return Buffer.from(text, 'utf8')
  const parts = text.split(new RegExp(`(${strays.source})`))
  return Buffer.concat(
    parts.map((part, index) =>
      index % 2 === 0 ? Buffer.from(part, 'utf8') : Buffer.from([part.charCodeAt(0) - firstStray]),
    ),
  )
}
