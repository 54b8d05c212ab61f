import { expect, test } from 'vitest'
import { hello, useGround } from '../testing/ground.ts'

const { ask, broker, listen } = useGround()

test('a secret is put in for its own hosts only, and replaces what the agent says', async () => {
  const upstream = await listen(hello('x'))
  const pin = `127.0.0.1:${upstream.port}`
  const { path } = await broker(
    { pins: { 'api.test': pin, 'web.test': pin } },
    { credentials: [{ hosts: ['api.test'], header: 'Authorization', value: 'Bearer s3cret', tls: false }] },
  )
  const request = (host: string) =>
    `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nAuthorization: placeholder\r\nConnection: close\r\n\r\n`
  await ask(path, 'proxy', request('api.test'))
  const [own] = upstream.seen.splice(0)
  expect(own?.toString().match(/authorization: .*/gi)).toEqual(['Authorization: Bearer s3cret'])
  // Asked by this method a server answers with what it was sent.
  const trace = await ask(path, 'proxy', request('api.test').replace('GET', 'TRACE'))
  expect(trace).toContain('TRACE would show the secret of this host')
  expect(upstream.seen).toEqual([])
  await ask(path, 'proxy', request('web.test').replace('GET', 'TRACE'))
  expect(Buffer.concat(upstream.seen.splice(0)).toString()).toContain('TRACE / HTTP/1.1')
  await ask(path, 'proxy', request('web.test'))
  expect(Buffer.concat(upstream.seen).toString()).toContain('Authorization: placeholder')
})
