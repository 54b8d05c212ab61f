import { expect, test } from 'vitest'
import { peek } from './hello.ts'
import { helloFor } from '../testing/clientHello.ts'

const record = (part: Buffer) =>
  Buffer.concat([Buffer.from([0x16, 3, 1, part.length >> 8, part.length & 255]), part])

test('a hello in more records than anybody needs is refused, in a time that grows with its length only', () => {
  const head = record(Buffer.from([1, 0, 0xea, 0x60]))
  const said = Buffer.concat([head, ...Array.from({ length: 20_000 }, () => record(Buffer.alloc(1)))])
  const began = performance.now()
  expect(peek(said)).toEqual({ kind: 'broken', like: 'TLS' })
  // Quadratic in the records it took four seconds, and with them whoever wanted to narrow.
  expect(performance.now() - began).toBeLessThan(500)
})

test('a hello in the smallest of records is read as it is in one', async () => {
  const whole = await helloFor('a.test')
  const message = [...whole.subarray(5)]
  const split = Buffer.concat(message.map((byte) => record(Buffer.from([byte]))))
  expect(peek(split)).toEqual({ kind: 'tls', serverName: 'a.test', length: split.length })
  for (const cut of [1, 5, 6, 24, 25, split.length - 1])
    expect(peek(split.subarray(0, cut))).toEqual({ kind: 'more' })
  expect(peek(Buffer.concat([split, whole]))).toEqual({
    kind: 'tls',
    serverName: 'a.test',
    length: split.length,
  })
})

/** An LDAP bind by name and password, which has its own length as its second byte. */
function bindOf(length: number): Buffer {
  const name = Buffer.from('cn=admin,dc=ex')
  const password = Buffer.alloc(length - name.length - 12, 'p')
  const field = (tag: number, value: Buffer) => Buffer.concat([Buffer.from([tag, value.length]), value])
  const bind = Buffer.concat([Buffer.from([2, 1, 3]), field(4, name), field(0x80, password)])
  return field(0x30, Buffer.concat([Buffer.from([2, 1, 1]), field(0x60, bind)]))
}

test('a login to a directory is none of HTTP, however long its name and password are', () => {
  for (let length = 26; length < 120; length++) {
    const bind = bindOf(length)
    expect(bind[1]).toBe(length)
    expect(peek(bind), `${length}`).toEqual({ kind: 'other' })
    for (let cut = 1; cut < 6; cut++) expect(['more', 'other']).toContain(peek(bind.subarray(0, cut)).kind)
  }
})

test.each([
  '0\x1c\x02\x01\x01/ HTTP/1.1',
  '0 / HTTP/1.1',
  '0\x1c\x02\x01\x01',
  '0\x1c/\x02\x01\x01\x60',
  ' 0\x1c\x02\x01\x01\x60',
  'A\x1c\x02\x01\x01\x60',
])('%j, which only begins like such a login, waits for the end of its line', (text) => {
  expect(peek(Buffer.from(text, 'latin1')).kind).toBe('more')
})
