import type { Target } from './names.ts'
import { parseRule, ruleMatches, type Rule } from './policy.ts'

/** A secret the broker holds and the agent never sees: it is put into plain HTTP requests to its hosts only. */
export type Credential = {
  readonly hosts: readonly Rule[]
  readonly header: string
  readonly value: string
  /** Plain HTTP from the sandbox goes out as TLS, so that the secret never travels in the clear. */
  readonly tls: boolean
}

export type CredentialGrant = {
  readonly hosts: readonly string[]
  readonly header: string
  readonly value: string
  readonly tls?: boolean
}

export function parseCredential(grant: CredentialGrant): Credential {
  return {
    hosts: grant.hosts.map((text) => parseRule('host of a credential', text)),
    header: grant.header,
    value: grant.value,
    tls: grant.tls ?? true,
  }
}

export function credentialFor(credentials: readonly Credential[], target: Target): Credential | null {
  return credentials.find(({ hosts }) => hosts.some((rule) => ruleMatches(rule, target))) ?? null
}
