import { expect, test } from 'vitest'
import { deniedAddress, parseOutputs } from './rules/policy.ts'
import { hello, useGround } from './testing/ground.ts'
import { proxiesOf } from './dial/upstream.ts'

const { ask, broker, listen, tunnel } = useGround()
const get = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n'

test('a denied address is not reached through a name that is pinned to it, and another port of it is', async () => {
  const server = await listen(hello('a'))
  const pins = { 'a.test': `127.0.0.1:${server.port}` }
  const free = await broker({ mode: 'restricted', pins, deny: [`127.0.0.1:${server.port + 1}`] })
  expect(await ask(free.path, 'proxy', get)).toContain('200 OK')
  await free.broker.close()
  for (const deny of ['127.0.0.1', `127.0.0.1:${server.port}`, '[::ffff:127.0.0.1]', '0x7f.1']) {
    server.connections = 0
    const { path, decisions, broker: started } = await broker({ mode: 'restricted', pins, deny: [deny] })
    expect(await ask(path, 'proxy', get)).toContain(`it leads to 127.0.0.1, denied by the rule ${deny}`)
    expect(decisions).toMatchObject([{ allowed: false, grantable: false }])
    expect(server.connections).toBe(0)
    await started.close()
  }
})

test('a denied address is not reached through a name that resolves to it', async () => {
  const server = await listen(hello('a'))
  const network = { mode: 'restricted' as const, pins: { 'a.test': '127.0.0.0/8' } }
  const request = get.replaceAll('a.test', `a.test:${server.port}`)
  const resolver = async () => ['127.0.0.1']
  const free = await broker(network, { resolver })
  expect(await ask(free.path, 'proxy', request)).toContain('200 OK')
  await free.broker.close()
  server.connections = 0
  const { path } = await broker({ ...network, deny: ['127.0.0.1'] }, { resolver })
  expect(await ask(path, 'proxy', request)).toContain('denied by the rule 127.0.0.1')
  expect(server.connections).toBe(0)
})

test("where the user's proxy resolves, a name of a denied address is not asked for; else another address of it is", async () => {
  const proxy = await listen(hello('a'))
  const env = { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` }
  const resolver = async () => ['1.1.1.1', '1.0.0.1']
  const outputs = { mode: 'open' as const, deny: ['1.1.1.1'] }
  const named = await broker(outputs, { proxies: proxiesOf(env, true).proxies, resolver })
  expect(await ask(named.path, 'proxy', get)).toContain('it leads to 1.1.1.1, denied by the rule 1.1.1.1')
  expect(proxy.connections).toBe(0)
  await named.broker.close()
  const { path } = await broker(outputs, { proxies: proxiesOf(env).proxies, resolver })
  await ask(path, 'proxy', get)
  expect(Buffer.concat(proxy.seen).toString()).toContain('http://1.0.0.1')
})

test('an open connection ends when the address it leads to is denied', async () => {
  const server = await listen()
  const outputs = { mode: 'restricted' as const, pins: { 'a.test:443': `127.0.0.1:${server.port}` } }
  const { path, broker: started } = await broker(outputs)
  const client = await tunnel(path, 'a.test:443')
  const closed = new Promise((done) => client.once('close', done))
  client.resume()
  started.setPolicy(parseOutputs({ ...outputs, deny: ['127.0.0.1'] }))
  client.end()
  await closed
  expect(started.usage().denied).toMatchObject([
    { host: 'a.test', why: expect.stringContaining('it leads to 127.0.0.1') },
  ])
})

test('an address is denied in each of its spellings, and names below it are none of it', () => {
  const policy = parseOutputs({ mode: 'open', deny: ['1.1.1.1', '[2606:4700::1]:443'] })
  for (const address of ['1.1.1.1', '::ffff:1.1.1.1', '64:ff9b::101:101'])
    expect(deniedAddress(policy, address, 80), address).toBe('denied by the rule 1.1.1.1')
  expect(deniedAddress(policy, '2606:4700:0::1', 443)).not.toBeNull()
  expect(deniedAddress(policy, '2606:4700::1', 80)).toBeNull()
  expect(deniedAddress(policy, '1.1.1.2', 80)).toBeNull()
})

test('with read-only outputs the list decides before the method, and a host that is granted then still takes no writing', async () => {
  const oracle = await listen()
  const outputs = { mode: 'restricted', read_only: true } as const
  const asked: string[] = []
  const {
    path,
    decisions,
    broker: started,
  } = await broker(outputs, {
    beforeDenial: async ({ host }) => {
      asked.push(host)
      if (host === 'granted.test')
        started.setPolicy(parseOutputs({ ...outputs, pins: { [host]: `127.0.0.1:${oracle.port}` } }))
      return null
    },
  })
  const post = (host: string, more = '') =>
    ask(path, 'proxy', `POST http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0\r\n${more}\r\n`)
  expect(await post('bad.test')).toContain('the list of allowed hosts is empty')
  expect(decisions.at(-1)).toMatchObject({ host: 'bad.test', grantable: true })
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  expect(await post('bad.test', upgrade)).toContain('the list of allowed hosts is empty')
  expect(await post('granted.test')).toContain('read-only outputs do not let POST through')
  expect(asked).toEqual(['bad.test', 'bad.test', 'granted.test'])
  expect(decisions.filter(({ allowed }) => allowed)).toEqual([])
  expect(oracle.connections).toBe(0)
})
