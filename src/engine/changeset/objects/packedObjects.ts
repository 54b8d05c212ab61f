/** The names in a pack index of version 2; null for anything else. */
export function packedObjects(index: Buffer): readonly string[] | null {
  const [magic, names] = [Buffer.from('\xfftOc\0\0\0\x02', 'latin1'), 8 + 256 * 4]
  if (index.length < names || !index.subarray(0, 8).equals(magic)) return null
  const count = index.readUInt32BE(names - 4)
  if (index.length < names + count * 20) return null
  return Array.from({ length: count }, (_, at) =>
    index.toString('hex', names + at * 20, names + at * 20 + 20),
  )
}
