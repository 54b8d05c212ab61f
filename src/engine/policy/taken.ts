import { hostsOverlap, someHostCovers } from '../../shared/hosts.ts'
import { unique } from './config/narrow.ts'

/** Hosts that a person took back, and those granted since, which count in spite of that. */
export type Taken = { readonly taken: readonly string[]; readonly returned: readonly string[] }

export const nothingTaken: Taken = { taken: [], returned: [] }

/** Whether a person took back a host, or part of what a pattern stands for. */
export function isTaken({ taken, returned }: Taken, host: string): boolean {
  if (someHostCovers(returned, host)) return false
  return taken.some((each) => hostsOverlap(each, host) && !someHostCovers(returned, each))
}

/** What is out of reach, for a person to read. */
export const stillTaken = (now: Taken): string[] =>
  now.taken.filter((host) => !someHostCovers(now.returned, host))

/** What holds once `hosts` are taken back as well. */
export function takingBack(now: Taken, hosts: readonly string[]): Taken {
  const overlaps = (host: string) => hosts.some((each) => hostsOverlap(each, host))
  // Of what came back as a whole only a part goes again: the rest stays, without the word that had taken it.
  const split = now.returned.filter((host) => overlaps(host) && !someHostCovers(hosts, host))
  return {
    taken: unique([...now.taken.filter((host) => !someHostCovers(split, host)), ...hosts]),
    returned: now.returned.filter((host) => !overlaps(host)),
  }
}

/** A yes gives back what was asked for, and nothing else of what was taken. */
export const givingAgain = (now: Taken, hosts: readonly string[]): Taken => ({
  taken: now.taken,
  returned: unique([
    ...now.returned,
    ...hosts.filter((host) => now.taken.some((each) => hostsOverlap(each, host))),
  ]),
})

/** What neither of two may reach. */
export const takenByEither = (a: Taken, b: Taken): Taken => ({
  taken: unique([...a.taken, ...b.taken]),
  returned: a.returned.filter((host) => b.returned.includes(host)),
})
