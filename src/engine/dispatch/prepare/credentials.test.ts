import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { credentialSchema } from '../../../shared/config.ts'
import type { ContractOutputs } from '../../base/contract.ts'
import { readCredentials } from './credentials.ts'

afterEach(() => vi.unstubAllEnvs())

const outputs = (
  allow: readonly string[],
  mode: ContractOutputs['mode'] = 'restricted',
): ContractOutputs => ({
  mode,
  allow,
  deny: [],
  pins: {},
  always: [],
  readOnly: false,
  declared: true,
})
const fromEnvironment = credentialSchema.parse({
  hosts: ['api.test'],
  value: 'Bearer {secret}',
  env: 'OWN_SECRET',
})

test('a secret goes along for a host that is granted later; one that cannot be read closes that host and fails what names it', async () => {
  vi.stubEnv('OWN_SECRET', 's3cret-value')
  for (const reach of [outputs(['api.test']), outputs(['web.test']), outputs([], 'none')]) {
    const { grants, checks } = await readCredentials([fromEnvironment], { outputs: reach, level: 1 }, {})
    expect(grants.map(({ value }) => value)).toEqual(['Bearer s3cret-value'])
    expect(checks.every(({ ok }) => ok)).toBe(true)
  }
  vi.stubEnv('OWN_SECRET', '')
  const named = await readCredentials([fromEnvironment], { outputs: outputs(['api.test']), level: 1 }, {})
  expect(named.checks.map(({ ok }) => ok)).toEqual([false])
  const other = await readCredentials([fromEnvironment], { outputs: outputs(['web.test']), level: 1 }, {})
  expect(other.grants.map(({ value }) => value)).toEqual([null])
})

test('a line break in a secret fails the preflight, from a variable as from a file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'secrets-'))
  const broken = 's3cret\r\nX-Other: 1'
  vi.stubEnv('OWN_SECRET', broken)
  const file = join(folder, 'token')
  await writeFile(file, broken)
  for (const place of [{ env: 'OWN_SECRET' }, { file }]) {
    const credential = credentialSchema.parse({ hosts: ['api.test'], ...place })
    const { grants, checks } = await readCredentials(
      [credential],
      { outputs: outputs(['api.test']), level: 1 },
      {},
    )
    expect(grants).toEqual([])
    expect(checks).toMatchObject([{ ok: false, detail: expect.stringContaining('more than one line') }])
  }
  await rm(folder, { recursive: true })
})

test('a secret that the agent would be given as a variable fails the preflight', async () => {
  vi.stubEnv('OWN_SECRET', 's3cret-value')
  const contract = { outputs: outputs(['api.test']), level: 1 } as const
  const { checks } = await readCredentials([fromEnvironment], contract, { TOKEN: 'Bearer s3cret-value' })
  expect(checks.find(({ ok }) => !ok)?.detail).toBe('the agent would be given it as the variable TOKEN')
})

test('nobody waits at a pipe in the place of a secret: it fails the preflight, and is told', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'secrets-'))
  const file = join(folder, 'token')
  execFileSync('mkfifo', [file])
  const credential = credentialSchema.parse({ hosts: ['api.test'], file })
  const contract = { outputs: outputs(['api.test']), level: 1 } as const
  const { checks } = await readCredentials([credential], contract, {})
  expect(checks).toMatchObject([
    { ok: false, detail: `the file ${file} cannot be read: it is no regular file` },
  ])
  await rm(folder, { recursive: true })
})
