import { closeSync, openSync, readSync } from 'node:fs'
import type { TurnedAway } from '../../base/sandbox.ts'

const longest = 64 * 1024

/** `/proc/PID/net/snmp`: for each protocol a line with names and one with numbers. */
export function parseCounters(text: string): ReadonlyMap<string, number> {
  const lines = text.split('\n')
  const counters = new Map<string, number>()
  for (const [index, line] of lines.entries()) {
    const [protocol, ...names] = line.split(' ')
    const [same, ...numbers] = (lines[index + 1] ?? '').split(' ')
    if (protocol === '' || protocol !== same) continue
    for (const [at, name] of names.entries()) counters.set(`${protocol}${name}`, Number(numbers[at]))
  }
  return counters
}

/** `/proc/PID/net/snmp6`: a name and a number a line. */
export function parseCounters6(text: string): ReadonlyMap<string, number> {
  return new Map(
    [...text.matchAll(/^(\w+)\s+(\d+)$/gm)].map(([, name = '', number]) => [name, Number(number)]),
  )
}

/**
 * What the kernel turned away in a sandbox's network namespace by itself: there is no route but to its own
 * loopback. It tells nobody, but it counts. The open files keep the counters readable until the end, when no
 * process is left in there.
 */
export class NetworkCounters implements Disposable {
  readonly #files: readonly number[]

  constructor(pid: number) {
    this.#files = ['snmp', 'snmp6'].map((name) => open(`/proc/${pid}/net/${name}`))
  }

  read(): TurnedAway {
    const [first = '', second = ''] = this.#files.map(readWhole)
    const [counters, counters6] = [parseCounters(first), parseCounters6(second)]
    const sum = (...numbers: (number | undefined)[]) =>
      numbers.reduce<number>((all, one) => all + (one ?? 0), 0)
    return {
      addresses: sum(counters.get('Ip:OutNoRoutes'), counters6.get('Ip6OutNoRoutes')),
      datagrams: sum(counters.get('Udp:NoPorts'), counters6.get('Udp6NoPorts')),
    }
  }

  [Symbol.dispose](): void {
    for (const file of this.#files) if (file !== -1) closeSync(file)
  }
}

function open(path: string): number {
  try {
    return openSync(path, 'r')
  } catch {
    // A kernel without IPv6 has none of its counters, and nothing to count.
    return -1
  }
}

function readWhole(file: number): string {
  if (file === -1) return ''
  const bytes = Buffer.alloc(longest)
  let length = 0
  for (;;) {
    const read = readSync(file, bytes, length, longest - length, length)
    if (read === 0) return bytes.toString('latin1', 0, length)
    length += read
  }
}
