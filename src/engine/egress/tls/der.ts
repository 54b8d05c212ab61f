/**
 * Just enough of DER to write a certificate: values go in, bytes come out. Nothing is ever read with it, so the
 * worst a mistake could do is a certificate that programs refuse.
 */
export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  if (content.length < 0x80) return Buffer.concat([Buffer.from([tag, content.length]), content])
  const size = content.length.toString(16)
  const length = Buffer.from(size.length % 2 === 0 ? size : `0${size}`, 'hex')
  return Buffer.concat([Buffer.from([tag, 0x80 | length.length]), length, content])
}

export const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts)
export const set = (...parts: readonly Uint8Array[]) => der(0x31, ...parts)
export const octets = (bytes: Uint8Array) => der(0x04, bytes)
export const bits = (bytes: Uint8Array, unused = 0) => der(0x03, Buffer.from([unused]), bytes)
export const text = (value: string) => der(0x0c, Buffer.from(value))
export const truth = der(0x01, Buffer.from([0xff]))

/** `[number]` around what is inside it, or in its place. */
export const tagged = (number: number, ...parts: readonly Uint8Array[]) => der(0xa0 | number, ...parts)
export const taggedInPlace = (number: number, bytes: Uint8Array) => der(0x80 | number, bytes)

/** A number that is not negative, however its first bit is. */
export const integer = (bytes: Uint8Array) =>
  (bytes[0] ?? 0) >= 0x80 ? der(0x02, Buffer.from([0]), bytes) : der(0x02, bytes)

export function identifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const part of rest) {
    const groups = [part & 0x7f]
    for (let left = part >> 7; left > 0; left >>= 7) groups.unshift(0x80 | (left & 0x7f))
    bytes.push(...groups)
  }
  return der(0x06, Buffer.from(bytes))
}

/** Until 2049, as certificates have it. */
export const time = (date: Date) =>
  der(0x17, Buffer.from(`${date.toISOString().slice(2, 19).replaceAll(/[-:T]/g, '')}Z`))
