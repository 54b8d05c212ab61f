import { isIP } from 'node:net'
import type { Target } from './names.ts'
import { parseRule, ruleMatches, type Rule } from './policy.ts'

/** A secret the broker holds and the agent never sees: it is put into HTTP requests to its hosts only. */
export type Credential = {
  readonly hosts: readonly Rule[]
  readonly header: string
  /** Null where it could not be read: then nothing goes to its hosts that it belongs into. */
  readonly value: string | null
  /** Plain HTTP from the sandbox goes out as TLS, so that the secret never travels in the clear. */
  readonly tls: boolean
  /** The user let us open the agent's own TLS to these hosts, to put the secret in there too. */
  readonly intercept: boolean
}

export type CredentialGrant = {
  readonly hosts: readonly string[]
  readonly header: string
  readonly value: string | null
  readonly tls?: boolean
  readonly intercept?: boolean
}

export function parseCredential(grant: CredentialGrant): Credential {
  return {
    hosts: grant.hosts.map((text) => parseRule('host of a credential', text)),
    header: grant.header,
    value: grant.value,
    tls: grant.tls ?? true,
    intercept: grant.intercept ?? false,
  }
}

/** All that belong to a host; the first one of a header counts. */
export function credentialsFor(credentials: readonly Credential[], target: Target): readonly Credential[] {
  const found = credentials.filter(({ hosts }) => hosts.some((rule) => ruleMatches(rule, target)))
  const isFirst = ({ header }: Credential, index: number) =>
    found.findIndex((other) => other.header.toLowerCase() === header.toLowerCase()) === index
  return found.filter(isFirst)
}

/** The names whose TLS is opened, each standing for what is below it too. Addresses have none to vouch for. */
export function interceptedNames(grants: readonly CredentialGrant[]): string[] {
  const rules = grants
    .filter(({ intercept }) => intercept === true)
    .flatMap((grant) => parseCredential(grant).hosts)
  return [...new Set(rules.map(({ host }) => host))].filter((host) => isIP(host) === 0)
}

/** Whether the user let us open the TLS of connections to a host. */
export const opensTls = (credentials: readonly Credential[], target: Target): boolean =>
  isIP(target.host) === 0 && credentialsFor(credentials, target).some(({ intercept }) => intercept)
