import { OrangeryError } from '../../shared/errors.ts'
import { formatHostPattern, notAHost, parseHostPattern } from '../../shared/hosts.ts'
import { unique } from './config/narrow.ts'

/** Host patterns, each in its one spelling. */
export function normalised(hosts: readonly string[]): string[] {
  return unique(
    hosts.map((text) => {
      const pattern = parseHostPattern(text)
      if (pattern !== undefined) return formatHostPattern(pattern)
      throw new OrangeryError('boundary.host', `${JSON.stringify(text)}: ${notAHost(text)}`, {
        kind: 'input',
      })
    }),
  ).sort()
}
