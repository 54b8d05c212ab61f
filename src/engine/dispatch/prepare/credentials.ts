import { homedir } from 'node:os'
import { join } from 'node:path'
import type { CredentialConfig } from '../../../shared/config.ts'
import type { CheckResult } from '../../../shared/doctor.ts'
import { someHostCovers } from '../../../shared/hosts.ts'
import type { Contract, ContractOutputs } from '../../base/contract.ts'
import { readRegularFile } from '../../base/files.ts'
import type { CredentialGrant } from '../../egress/index.ts'

const longestSecret = 16 * 1024
const largestFile = 64 * 1024
/** A shorter one would be found in any text. */
const shortestLookedFor = 6

const pathOf = (file: string): string => (file.startsWith('~/') ? join(homedir(), file.slice(2)) : file)

/** The files that hold secrets, wherever they lead: none of them may be in an agent's sight. */
export const credentialFiles = (configured: readonly CredentialConfig[]): readonly string[] => [
  ...new Set(configured.flatMap(({ file }) => (file === undefined ? [] : [pathOf(file)]))),
]

type Read = { readonly secret: string } | { readonly fault: string }

async function readSecret({ env, file }: CredentialConfig): Promise<Read> {
  let text: string | undefined
  try {
    text = env === undefined ? await readRegularFile(pathOf(file ?? ''), largestFile) : process.env[env]
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { fault: `cannot be read: ${code ?? message}` }
  }
  const secret = text?.trim() ?? ''
  if (secret === '') return { fault: 'holds none' }
  if (secret.length > longestSecret) return { fault: `holds more than ${longestSecret} characters` }
  // A line break would end the header and begin whatever the secret says next.
  return /^[\x20-\x7e]+$/.test(secret) ? { secret } : { fault: 'holds more than one line of plain text' }
}

/** Whether a contract leads to one of the hosts from the start. */
function concerns(outputs: ContractOutputs, hosts: readonly string[]): boolean {
  if (outputs.declared && outputs.mode === 'none' && outputs.cut !== true) return false
  if (outputs.declared && outputs.mode === 'open') return true
  const named = [...outputs.allow, ...outputs.always]
  return hosts.some(
    (host) => someHostCovers(named, host) || named.some((rule) => someHostCovers([host], rule)),
  )
}

/**
 * The secrets the broker holds for one dispatch. They travel with the job and are never written down; one that
 * is needed and cannot be read fails the preflight, because the agent would only see a refusal of the server. Those of
 * other hosts go along: a host may be granted while the agent runs.
 */
export async function readCredentials(
  configured: readonly CredentialConfig[],
  { outputs, level }: Pick<Contract, 'outputs' | 'level'>,
  given: Readonly<Record<string, string>>,
): Promise<{ readonly grants: readonly CredentialGrant[]; readonly checks: readonly CheckResult[] }> {
  const grants: CredentialGrant[] = []
  const checks: CheckResult[] = []
  for (const credential of configured) {
    const { hosts, header, value, tls, intercept, env, file } = credential
    const name = `secret for ${hosts.join(', ')}`
    const place = env === undefined ? `the file ${file ?? ''}` : `the variable ${env}`
    const isNeeded = concerns(outputs, hosts)
    if (level === 0) {
      const detail = 'not used: at level 0 no broker stands between, and the agent reads what you can read'
      if (isNeeded) checks.push({ name, ok: true, detail, fix: null })
      continue
    }
    const read = await readSecret(credential)
    const way = { hosts, header, tls, intercept }
    if ('fault' in read) {
      const fix = `Put the secret into ${place}, on one line, or take it out of sandboxCredentials.`
      if (isNeeded) checks.push({ name, ok: false, detail: `${place} ${read.fault}`, fix })
      // Its hosts may be granted later: without it a request that should be TLS would go out plain, and bare.
      else grants.push({ ...way, value: null })
      continue
    }
    const { secret } = read
    const shown = Object.entries(given).find(
      ([, text]) => text === secret || (secret.length >= shortestLookedFor && text.includes(secret)),
    )
    if (shown !== undefined) {
      const detail = `the agent would be given it as the variable ${shown[0]}`
      const fix = `Take ${shown[0]} out of --env and of the card's sandboxRequirements.env: the broker puts the secret in.`
      checks.push({ name, ok: false, detail, fix })
    }
    const opened = intercept ? '; TLS to these hosts is opened to put it in' : ''
    if (isNeeded)
      checks.push({ name, ok: true, detail: `held by the broker, from ${place}${opened}`, fix: null })
    grants.push({ ...way, value: value.replaceAll('{secret}', () => secret) })
  }
  return { grants, checks }
}
