import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { aliasesFor, hostsFile, listenersFor } from './aliases.ts'
import { normaliseHost, parseAuthority } from './names.ts'
import { decide, decideName, deniedAddress, parseAllowHost, parseOutputs, refuseOwnPlaces } from './policy.ts'
import { anyText } from '../testing/anyText.ts'

const allowed = (outputs: Parameters<typeof parseOutputs>[0], host: string, port = 443) =>
  decide(parseOutputs(outputs), { host, port }).allowed

test.each(['10.0.0.1:80', '0x0a000001', 'x.localhost:80', 'LOCALHOST', '[64:ff9b::a00:1]:80', '[fe80::1]'])(
  '%s cannot be asked for, since a yes would not open it, but where the user pinned it',
  (host) => {
    expect(() => refuseOwnPlaces(['a.test', host], {})).toThrowError(
      /cannot be asked for: .*which only a pin/,
    )
    expect(() => refuseOwnPlaces(['a.test', host], { [host]: '127.0.0.1:80' })).not.toThrowError()
    expect(() =>
      refuseOwnPlaces(['a.test', '1.1.1.1:80', '*.b.test', '@npm', '', 'x y'], {}),
    ).not.toThrowError()
  },
)

test('a program that asks for a host behind the boundary is told so, and for any other that it is not in the list', () => {
  const policy = parseOutputs({ mode: 'none', gate: { level: 'readwrite', hosts: ['a.test:443'] } })
  const why = 'the boundary is readwrite, and it waits for network'
  expect(decide(policy, { host: 'a.test', port: 443 })).toMatchObject({ why, grantable: true })
  expect(decideName(policy, 'a.test')).toEqual({ why, grantable: true })
  expect(decide(policy, { host: 'b.test', port: 443 })).toMatchObject({ why: 'outputs are none' })
  const given = parseOutputs({ mode: 'none', gate: { level: 'network', hosts: ['a.test:443'] } })
  expect(decideName(given, 'a.test').why).toBe(
    'the boundary is network, and this host waits for a yes of its own',
  )
  const open = parseOutputs({ mode: 'none', gate: { level: 'readwrite', hosts: null } })
  expect(decide(open, { host: 'b.test', port: 443 })).toMatchObject({ why })
})

describe('rules', () => {
  test('an exact host is allowed on every port, and no other host is', () => {
    const outputs = { mode: 'restricted', allow: ['example.com'] } as const
    expect(allowed({ ...outputs, allow: [...outputs.allow] }, 'example.com')).toBe(true)
    expect(allowed({ allow: ['example.com'] }, 'example.com', 8443)).toBe(true)
    for (const host of ['notexample.com', 'example.com.evil.net', 'a.example.com', 'example.co', 'com']) {
      expect(allowed({ allow: ['example.com'] }, host), host).toBe(false)
    }
  })

  test('a wildcard covers every depth below its host, never the host itself or a longer label', () => {
    const outputs = { allow: ['*.example.org'] }
    for (const host of ['a.example.org', 'a.b.example.org', 'A.EXAMPLE.ORG.']) {
      expect(allowed(outputs, host), host).toBe(true)
    }
    for (const host of ['example.org', 'xexample.org', 'a.example.org.evil.net']) {
      expect(allowed(outputs, host), host).toBe(false)
    }
  })

  test('a rule with a port covers that port only', () => {
    expect(allowed({ allow: ['example.com:443'] }, 'example.com', 443)).toBe(true)
    expect(allowed({ allow: ['example.com:443'] }, 'example.com', 80)).toBe(false)
  })

  test('deny wins over allow, pins and open', () => {
    expect(allowed({ allow: ['*.example.com'], deny: ['bad.example.com'] }, 'bad.example.com')).toBe(false)
    expect(allowed({ allow: ['*.example.com'], deny: ['bad.example.com'] }, 'good.example.com')).toBe(true)
    expect(allowed({ mode: 'open', deny: ['*.example.com'] }, 'x.example.com')).toBe(false)
    expect(allowed({ mode: 'open', deny: ['*.example.com'] }, 'x.example.org')).toBe(true)
    expect(allowed({ pins: { 'db.test': '127.0.0.1:1' }, deny: ['db.test'] }, 'db.test')).toBe(false)
  })

  test('what a person took back is denied, whatever allows it, and may be asked for again; what came back since counts', () => {
    const taken = ['*.example.com', 'db.test:1', '192.0.2.7']
    const all = { mode: 'open', pins: { 'db.test': '127.0.0.1:1' }, taken } as const
    const ways = [all, { allow: ['*.example.com', 'example.com', 'db.test', '192.0.2.7'], taken }]
    for (const outputs of ways) {
      expect(decide(parseOutputs(outputs), { host: 'X.example.com.', port: 443 })).toMatchObject({
        allowed: false,
        grantable: true,
        why: 'a person took it back',
      })
      expect(allowed(outputs, 'db.test', 1)).toBe(false)
      expect(allowed(outputs, 'db.test', 2)).toBe(true)
      expect(allowed(outputs, 'example.com')).toBe(true)
    }
    const given = { ...all, returned: ['x.example.com:443'] }
    expect(allowed(given, 'x.example.com')).toBe(true)
    expect(allowed(given, 'x.example.com', 80)).toBe(false)
    expect(allowed({ ...given, deny: ['x.example.com'] }, 'x.example.com')).toBe(false)
    // By its address, and for who names no port.
    expect(deniedAddress(parseOutputs(all), '::ffff:192.0.2.7', 443)).toBe('a person took it back')
    expect(decideName(parseOutputs(all), 'x.example.com')).toMatchObject({ grantable: true })
    expect(aliasesFor(parseOutputs({ allow: ['a.test', 'b.test'], taken: ['a.test'] }))).toMatchObject([
      { host: 'b.test' },
    ])
  })

  test('nothing given, an empty list and the mode none all deny', () => {
    expect(allowed(undefined, 'example.com')).toBe(false)
    expect(allowed({}, 'example.com')).toBe(false)
    expect(allowed({ mode: 'restricted' }, 'example.com')).toBe(false)
    expect(allowed({ mode: 'restricted', allow: [] }, 'example.com')).toBe(false)
    expect(allowed({ mode: 'none', allow: ['example.com'] }, 'example.com')).toBe(false)
  })

  test('a pin leads where the user said, the most specific one first', () => {
    const policy = parseOutputs({
      pins: { 'db.test': '127.0.0.1:5432', 'db.test:80': '10.0.0.7:8080', '*.lan.test': '192.168.0.0/16' },
    })
    const dial = (host: string, port: number) => {
      const decision = decide(policy, { host, port })
      return decision.allowed ? decision.dial : decision.why
    }
    expect(dial('db.test', 5432)).toEqual({ kind: 'address', address: '127.0.0.1', port: 5432 })
    expect(dial('DB.test.', 80)).toEqual({ kind: 'address', address: '10.0.0.7', port: 8080 })
    expect(dial('nas.lan.test', 445)).toEqual({ kind: 'network', cidr: '192.168.0.0/16' })
    expect(dial('lan.test', 445)).toBe('not in the list of allowed hosts')
  })

  test.each([
    ['https://example.com/', 'without scheme'],
    ['*', 'mode "open"'],
    ['10.0.0.0/8', 'only be pinned'],
    ['exa mple.com', 'not HOST, HOST:PORT or *.HOST'],
    ['user@example.com', 'not HOST, HOST:PORT or *.HOST'],
    ['example.com:0', 'not HOST, HOST:PORT or *.HOST'],
    ['example.com:99999', 'not HOST, HOST:PORT or *.HOST'],
    ['*.1.2.3.4', 'not HOST, HOST:PORT or *.HOST'],
    ['a.*.example.com', 'not HOST, HOST:PORT or *.HOST'],
    ['foo.123', 'not HOST, HOST:PORT or *.HOST'],
    ['*.', 'not HOST, HOST:PORT or *.HOST'],
    ['', 'not HOST, HOST:PORT or *.HOST'],
  ])('the rule %j is refused and named', (rule, why) => {
    const parse = () => parseOutputs({ mode: 'restricted', allow: [rule] })
    expect(parse).toThrowError(why)
    expect(parse).toThrowError(JSON.stringify(rule))
    expect(parse).toThrowError(expect.objectContaining({ kind: 'input' }))
  })

  test('--allow-host gives the part of outputs it stands for', () => {
    expect(parseAllowHost('example.com:443')).toEqual({ allow: 'example.com:443' })
    expect(parseAllowHost('db.test:5432=127.0.0.1:5433')).toEqual({
      allow: 'db.test:5432',
      pin: ['db.test:5432', '127.0.0.1:5433'],
    })
    for (const name of ['elsewhere', 'localhost'])
      expect(() => parseAllowHost(`db.test=${name}:1`)).toThrowError('must lead to an address')
    expect(() => parseAllowHost('db.test=127.0.0.1')).toThrowError('no port')
  })
})

describe('names', () => {
  test.each([
    ['EXAMPLE.com', 'example.com'],
    ['example.com.', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['ｅｘａｍｐｌｅ.com', 'example.com'],
    ['example。com', 'example.com'],
    ['2130706433', '127.0.0.1'],
    ['0x7f.1', '127.0.0.1'],
    ['0177.0.0.01', '127.0.0.1'],
    ['①②⑦.0.0.1', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['[::ffff:127.0.0.1]', '127.0.0.1'],
    ['::FFFF:7f00:1', '127.0.0.1'],
    ['[2001:DB8:0:0::1]', '2001:db8::1'],
  ])('%j is read as %j', (text, host) => {
    expect(normaliseHost(text)).toBe(host)
  })

  test.each([
    '',
    '.',
    '..',
    'a..b',
    '.a',
    'a b',
    'a\nb',
    'a\0b',
    'a/b',
    'a@b',
    'a%61',
    'a#b',
    'a?b',
    'a\\b',
    '[::1',
    'fe80::1%eth0',
    '1.2.3.4.5',
    '256.1.1.1',
    'a:b',
    'x'.repeat(64),
    `${'a.'.repeat(130)}a`,
  ])('%j is no host name', (text) => {
    expect(normaliseHost(text)).toBeNull()
  })

  test('whatever comes in, a normalised name is stable, plain and never matches more than itself', () => {
    const policy = parseOutputs({ allow: ['allowed.example', '*.below.example'] })
    const anyHost = fc.oneof(anyText(), fc.domain(), fc.ipV4Extended(), fc.ipV6(), fc.webAuthority())
    fc.assert(
      fc.property(anyHost, (text) => {
        const host = normaliseHost(text)
        if (host === null) return
        expect(normaliseHost(host)).toBe(host)
        expect(host).toMatch(/^[a-z0-9._:-]+$/)
        expect(host.endsWith('.')).toBe(false)
        const decision = decide(policy, { host: text, port: 443 })
        expect(decision.allowed).toBe(host === 'allowed.example' || host.endsWith('.below.example'))
      }),
      { numRuns: 300 },
    )
  })

  test('the target of a CONNECT line is what its host and port normalise to, or nothing', () => {
    const line = fc.oneof(
      anyText(),
      fc.webAuthority({ withPort: true, withIPv4Extended: true, withIPv6: true }),
      fc.tuple(anyText(5), fc.domain()).map(([user, host]) => `${user}@${host}:443`),
      fc.tuple(fc.domain(), fc.nat(70_000)).map(([host, port]) => `${host}:${port}`),
    )
    fc.assert(
      fc.property(line, (text) => {
        const target = parseAuthority(text, null)
        if (target === null) return
        expect(target.port).toBeGreaterThan(0)
        expect(target.port).toBeLessThan(65_536)
        expect(text).not.toContain('@')
        expect(normaliseHost(target.host)).toBe(target.host)
      }),
      { numRuns: 300 },
    )
  })
})

describe('aliases', () => {
  const policy = parseOutputs({
    allow: ['a.example', 'b.example:5432', '*.wild.example', '1.2.3.4', 'c.example'],
    deny: ['c.example:443'],
    pins: { 'db.test:6000': '127.0.0.1:1' },
  })
  const aliases = aliasesFor(policy)

  test('every allowed exact host has an address of its own, the ports that are allowed and those that are told no', () => {
    const usual = [22, 80, 443, 8443, 9418]
    expect(aliases.map(({ host, ports }) => [host, ports])).toEqual([
      ['a.example', usual],
      ['b.example', [5432]],
      ['c.example', usual.filter((port) => port !== 443)],
      ['db.test', [6000]],
    ])
    for (const { ports, laterPorts = [] } of aliases) {
      const all = [...ports, ...laterPorts]
      expect(all).toEqual(expect.arrayContaining([22, 25, 80, 443, 636]))
      expect(new Set(all).size).toBe(all.length)
    }
    expect(new Set(aliases.map(({ address }) => address)).size).toBe(4)
    for (const { address } of aliases) expect(address).toMatch(/^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\./)
  })

  test('only to say no, none is listened on that the agent could have; where every port is allowed, none of a development server', () => {
    const high = (host: string) => {
      const { ports = [], laterPorts = [] } = aliases.find((alias) => alias.host === host) ?? {}
      return [...ports, ...laterPorts].filter((port) => port >= 1024)
    }
    expect(high('b.example')).toEqual([5432])
    expect(high('db.test')).toEqual([6000])
    expect(high('a.example')).toEqual([8443, 9418, 1433, 3306, 5432, 5672, 6379, 9200, 27_017])
  })

  test('a port that a person took back is still listened on, so that its next use is heard', () => {
    const [alias] = aliasesFor(parseOutputs({ allow: ['a.test', 'b.test:80'], taken: ['a.test:5432'] }))
    expect(alias).toMatchObject({ host: 'a.test', ports: [22, 80, 443, 8443, 9418, 5432] })
    const granted = aliasesFor(parseOutputs({ allow: ['b.test:80'], taken: ['b.test:9092', 'c.test:7'] }))
    expect(granted).toMatchObject([{ host: 'b.test', ports: [80, 9092] }])
  })

  test('a port that the contract names and the boundary keeps back is listened on once the host has another', () => {
    const gate = { level: 'network', hosts: ['db.test:9092', '*.test:7', 'other.test:9', 'db.test'] }
    const [alias] = aliasesFor(parseOutputs({ allow: ['db.test:80'], gate }))
    expect(alias).toMatchObject({ host: 'db.test', ports: [80, 9092, 7] })
    expect(aliasesFor(parseOutputs({ allow: [], gate }))).toEqual([])
  })

  test('an address stays with its host while other rules come and go', () => {
    const more = aliasesFor(parseOutputs({ allow: ['aa.example', 'a.example', 'zz.example'] }))
    expect(more.find(({ host }) => host === 'a.example')?.address).toBe(aliases[0]?.address)
  })

  test('of very many hosts the first have listeners, and later ones take the place of none', () => {
    const allow = Array.from({ length: 300 }, (_, n) => `h${n}.example`)
    const hosts = (list: string[]) => aliasesFor(parseOutputs({ allow: list })).map(({ host }) => host)
    expect(hosts(allow)).toHaveLength(60)
    expect(hosts(allow)).toEqual(hosts(allow.slice(0, 60)))
    expect(listenersFor(parseOutputs({ allow }))).toBe(60 * 19)
  })

  test('the hosts file names them and localhost', () => {
    expect(hostsFile(aliases)).toContain(`\n${aliases[0]?.address} a.example\n`)
    expect(hostsFile([])).toBe('127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n')
  })
})

test('deny wins over an address in whatever spelling it is denied: its own, or the one a NAT64 gateway has for it', () => {
  for (const rule of ['[64:ff9b::808:808]', '8.8.8.8', '8.8.8.8:80']) {
    const policy = parseOutputs({ mode: 'open', deny: [rule] })
    for (const address of ['64:ff9b::808:808', '8.8.8.8', '::ffff:8.8.8.8'])
      expect(deniedAddress(policy, address, 80), `${rule} ${address}`).toContain('denied by the rule')
    expect(deniedAddress(policy, '64:ff9b::808:404', 80)).toBeNull()
  }
})

test('what no grant could open is no request, and an empty list is called empty', () => {
  const policy = parseOutputs({ mode: 'restricted', allow: [] })
  for (const host of ['127.0.0.1', '169.254.169.254', '::1', 'localhost', 'orangery'])
    expect(decide(policy, { host, port: 80 })).toMatchObject({ allowed: false, grantable: false })
  expect(decide(policy, { host: 'a.test', port: 80 })).toMatchObject({
    grantable: true,
    why: 'the list of allowed hosts is empty',
  })
})
