/** A part of a process's memory that is a file. */
export type Mapping = {
  readonly range: string
  readonly bytes: number
  readonly modes: string
  /** As mountinfo has it. */
  readonly device: string
  readonly inode: string
  readonly file: string
}

export const sharedMapping = /^[0-9a-f]+-[0-9a-f]+ \S{3}s /m

/** A line of /proc/PID/maps, where it is of a file. */
export function parseMapping(line: string): readonly Mapping[] {
  const [, from, to, modes, major = '', minor = '', inode, file] =
    /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(\/.*)$/.exec(line) ?? []
  if (from === undefined || to === undefined || modes === undefined || inode === undefined) return []
  const bytes = Number.parseInt(to, 16) - Number.parseInt(from, 16)
  const plain = (address: string) => address.replace(/^0+(?=.)/, '')
  const device = `${Number.parseInt(major, 16)}:${Number.parseInt(minor, 16)}`
  return [{ range: `${plain(from)}-${plain(to)}`, bytes, modes, device, inode, file: file ?? '' }]
}

/** Of /proc/PID/smaps, the mappings of files that were opened for writing: the kernel counts only those as shared. */
export function writableRanges(smaps: string): ReadonlySet<string> {
  const ranges = new Set<string>()
  let range = ''
  for (const line of smaps.split('\n')) {
    const [mapping] = parseMapping(line)
    if (mapping !== undefined) range = mapping.range
    else if (/^VmFlags:.* sh\b/.test(line) && range !== '') ranges.add(range)
    if (line.startsWith('VmFlags:')) range = ''
  }
  return ranges
}
