import { expect, test } from 'vitest'
import { call, ended, output, port, spawn, useGround } from './ground.ts'

useGround()

test('an agent is shown which hosts it can reach now, of its contract and of what was granted and taken since', async () => {
  const id = await spawn('for each in $(seq 60); do orangery-ask show; sleep 0.3; done', {
    boundary: 'network',
    outputs: {
      mode: 'restricted',
      allow: ['*.example.org', 'api.example.com:443'],
      deny: ['bad.example.org'],
      pins: { 'registry.test:8080': `127.0.0.1:${port}` },
    },
  })
  const shown = async () => {
    const lines = (await output(id).catch(() => '')).split(/\r?\n/).filter((line) => line.endsWith('}'))
    return JSON.parse(lines.at(-1) ?? '{}') as object
  }
  const patience = { timeout: 20_000 }
  await expect.poll(shown, patience).toMatchObject({
    level: 'network',
    hosts: [],
    network: {
      mode: 'restricted',
      allowed: ['*.example.org', 'api.example.com:443', 'registry.test:8080'],
      denied: ['bad.example.org'],
    },
  })
  await call().call('boundary.request', { id, to: 'network', hosts: ['new.test:443'], reason: 'x' })
  await call().call('boundary.approve', { id })
  await call().call('boundary.narrow', { id, hosts: ['api.example.com:443'] })
  await expect.poll(shown, patience).toMatchObject({
    hosts: ['new.test:443'],
    network: {
      allowed: ['*.example.org', 'registry.test:8080', 'new.test:443'],
      denied: ['bad.example.org', 'api.example.com:443'],
    },
  })
  await call().call('dispatch.kill', { id })
  await ended(id)
})
