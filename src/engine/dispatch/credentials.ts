import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { CredentialConfig } from '../../shared/config.ts'
import type { CheckResult } from '../../shared/doctor.ts'
import { someHostCovers } from '../../shared/hosts.ts'
import type { ContractOutputs } from '../base/contract.ts'
import type { CredentialGrant } from '../egress/index.ts'

const longestSecret = 16 * 1024

async function readSecret({ env, file }: CredentialConfig): Promise<string | null> {
  if (env !== undefined) return process.env[env]?.trim() || null
  const path = file?.startsWith('~/') ? join(homedir(), file.slice(2)) : (file ?? '')
  const text = await readFile(path, 'utf8').catch(() => null)
  const secret = text?.trim() ?? ''
  // A line break would end the header and begin whatever the file says next.
  return secret === '' || secret.length > longestSecret || !/^[\x20-\x7e]+$/.test(secret) ? null : secret
}

/** Whether a contract could ever lead to one of the hosts. */
function concerns(outputs: ContractOutputs, hosts: readonly string[]): boolean {
  if (outputs.mode === 'open' || !outputs.declared) return true
  const named = [...outputs.allow, ...outputs.always]
  return hosts.some(
    (host) => someHostCovers(named, host) || named.some((rule) => someHostCovers([host], rule)),
  )
}

/**
 * The secrets the broker holds for one dispatch. They travel with the job and are never written down; one that
 * is needed and cannot be read fails the preflight, because the agent would only see a refusal of the server.
 */
export async function readCredentials(
  configured: readonly CredentialConfig[],
  outputs: ContractOutputs,
): Promise<{ readonly grants: readonly CredentialGrant[]; readonly checks: readonly CheckResult[] }> {
  const grants: CredentialGrant[] = []
  const checks: CheckResult[] = []
  for (const credential of configured) {
    if (outputs.declared && outputs.mode === 'none') continue
    if (!concerns(outputs, credential.hosts)) continue
    const { hosts, header, value, tls, intercept, env, file } = credential
    const secret = await readSecret(credential)
    const name = `secret for ${hosts.join(', ')}`
    const place = env === undefined ? `the file ${file ?? ''}` : `the variable ${env}`
    // Where nobody asked for the host, a secret that is missing is nobody's loss.
    if (secret === null && !outputs.declared) continue
    if (secret === null) {
      const fix = `Put the secret into ${place}, or take it out of sandboxCredentials.`
      checks.push({ name, ok: false, detail: `${place} holds none`, fix })
      continue
    }
    const opened = intercept ? '; TLS to these hosts is opened to put it in' : ''
    checks.push({ name, ok: true, detail: `held by the broker, from ${place}${opened}`, fix: null })
    grants.push({ hosts, header, value: value.replaceAll('{secret}', () => secret), tls, intercept })
  }
  return { grants, checks }
}
