import { expect, test } from 'vitest'
import { makeGround } from '../fixture.ts'
import { detectHost } from '../host/host.ts'
import { planSandbox } from './plan.ts'

test('where user namespaces are switched off that alone is told, and not a bubblewrap that cannot start without them', async () => {
  await using ground = await makeGround()
  const host = await detectHost(ground.dataDir)
  const off = { ok: false, why: 'they are switched off', fix: 'sudo sysctl' } as const
  const starts = { ok: false, why: 'does not start', fix: 'sudo apt install --reinstall bubblewrap' } as const
  const bubblewrap = { version: '0.8.0', isSetuid: false, starts }
  const facts = { ...host, bubblewrap, userNamespaces: off, overlay: off, fuseOverlay: off }
  expect(() => planSandbox(ground.request(['true']), facts)).toThrow(
    expect.objectContaining({ kind: 'preflight', hint: 'sudo sysctl' }),
  )
  const namespaces = { ...host, bubblewrap }
  expect(() => planSandbox(ground.request(['true']), namespaces)).toThrow('bubblewrap: does not start')
})
