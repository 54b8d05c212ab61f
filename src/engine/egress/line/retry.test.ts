import { expect, test } from 'vitest'
import { HelloWatch } from './retry.ts'
import { helloFor } from '../testing/clientHello.ts'

const random = 'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c'
const askAgain = Buffer.from(`1603030058020000540303${random}00130100000c002b0002030400330002001d`, 'hex')
const serverHello = Buffer.from(`1603030058020000540303${'11'.repeat(32)}00130100`, 'hex')
const changeCipher = Buffer.from([0x14, 3, 3, 0, 1, 1])
const earlyData = Buffer.from([0x17, 3, 3, 0, 2, 7, 7])
const [good, other] = await Promise.all([helloFor('a.test'), helloFor('other.test')])

function begun(): HelloWatch {
  const watch = new HelloWatch()
  expect(watch.fromClient(good)).toEqual(good)
  return watch
}

test('a second hello that the server asks for passes with the name of the first, in whatever pieces, and with no other', () => {
  for (const [second, passes] of [
    [good, true],
    [other, false],
  ] as const) {
    const watch = begun()
    expect(watch.fromClient(earlyData)).toEqual(earlyData)
    watch.fromServer(askAgain.subarray(0, 20))
    watch.fromServer(askAgain.subarray(20))
    const said = Buffer.concat([changeCipher, second, earlyData])
    const passed = Array.from(said, (byte) => watch.fromClient(Buffer.from([byte])))
    if (passes) expect(Buffer.concat(passed.map((bytes) => bytes ?? Buffer.alloc(0)))).toEqual(said)
    else expect(passed).toContain(null)
  }
})

test('no second hello passes before the server has spoken, alone or behind the first', () => {
  expect(begun().fromClient(good)).toBeNull()
  expect(begun().fromClient(Buffer.concat([changeCipher, earlyData, other]))).toBeNull()
  expect(new HelloWatch().fromClient(Buffer.concat([good, other]))).toBeNull()
  expect(begun().fromClient(Buffer.from('junk'))).toBeNull()
})

test('once the server has taken the first hello, everything passes as it comes', () => {
  const watch = begun()
  watch.fromServer(serverHello)
  for (const said of [other, Buffer.from('anything'), Buffer.alloc(70_000)])
    expect(watch.fromClient(said)).toBe(said)
  const warned = begun()
  expect(warned.fromServer(Buffer.from([0x15, 3, 3, 0, 2, 1, 112]))).toBe(true)
  expect(warned.fromServer(serverHello)).toBe(true)
  expect(warned.fromClient(other)).toBe(other)
  // Strictly only records follow, in whatever pieces.
  const strict = new HelloWatch(true)
  expect(strict.fromClient(good)).toEqual(good)
  expect(strict.fromServer(serverHello)).toBe(true)
  const records = Buffer.concat([changeCipher, earlyData, earlyData])
  for (const byte of records) expect(strict.fromClient(Buffer.from([byte]))).toHaveLength(1)
  expect(strict.fromClient(records)).toEqual(records)
  expect(strict.fromClient(Buffer.from('SET a b'))).toBeNull()
})

test('a server that answers a hello in anything but TLS is not heard, however it cuts its words', () => {
  for (const said of ['-ERR unknown\r\n', 'HTTP/1.1 400 Bad Request\r\n\r\n', good]) {
    expect(begun().fromServer(Buffer.from(said))).toBe(false)
    const slow = begun()
    expect(Array.from(Buffer.from(said), (byte) => slow.fromServer(Buffer.from([byte])))).toContain(false)
  }
  const alerted = begun()
  expect(alerted.fromServer(Buffer.from([0x15, 3, 3, 0, 2, 2, 40]))).toBe(true)
  expect(alerted.fromServer(Buffer.from('+OK'))).toBe(false)
  expect(begun().fromServer(serverHello)).toBe(true)
})
