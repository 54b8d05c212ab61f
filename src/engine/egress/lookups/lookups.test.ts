import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodeAnswer, parseQuestion, recordType, type Question } from './dns.ts'
import { aliasesWithin, type Lookups } from './lookups.ts'
import { answerDatagram, framed, readFramed } from './nameServer.ts'
import { useGround } from '../testing/ground.ts'

const { broker, open } = useGround()

/** A question as a resolver library would write it. */
function ask(labels: readonly (string | Buffer)[], type: number = recordType.a, extended = false): Buffer {
  const head = Buffer.from([0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, extended ? 1 : 0])
  const name = labels.flatMap((label) => [Buffer.from([Buffer.from(label).length]), Buffer.from(label)])
  const option = extended ? [Buffer.from([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0])] : []
  return Buffer.concat([head, ...name, Buffer.from([0, type >> 8, type & 255, 0, 1]), ...option])
}

async function answerOf(path: string, question: Buffer): Promise<Buffer> {
  const socket = await open(path, 'names')
  socket.write(framed(question))
  socket.resume()
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return readFramed(bytes)?.value ?? Buffer.alloc(0)
}
const codeOf = (answer: Buffer) => answer.readUInt16BE(2) & 15
const countOf = (answer: Buffer) => answer.readUInt16BE(6)

test('an allowed host has one address of the sandbox, and no other kind of answer', async () => {
  const { path, decisions } = await broker({ allow: ['Example.com:443'] })
  const answer = await answerOf(path, ask(['eXample', 'com']))
  expect([codeOf(answer), countOf(answer)]).toEqual([0, 1])
  expect(answer[answer.length - 4]).toBe(127)
  expect(answer.includes('eXample')).toBe(true)
  for (const type of [recordType.aaaa, 16, 33, 65, 255]) {
    const other = await answerOf(path, ask(['example', 'com'], type))
    expect([codeOf(other), countOf(other)], String(type)).toEqual([0, 0])
  }
  expect(decisions).toEqual([])
})

test('a refused name says who refused it and why, to whoever can read that', async () => {
  const { path, decisions } = await broker({ mode: 'restricted' })
  const plain = await answerOf(path, ask(['other', 'example']))
  expect([codeOf(plain), countOf(plain), plain.includes('Orangery')]).toEqual([3, 0, false])
  const told = await answerOf(path, ask(['other', 'example'], recordType.aaaa, true))
  expect(told.toString('latin1')).toContain(
    'Orangery does not let this sandbox reach other.example: the list of',
  )
  expect(decisions).toMatchObject([{ host: 'other.example', port: null, allowed: false, via: 'name' }])
})

test('names that spell something else are no names: dots in labels, addresses, bytes above ASCII, the root', async () => {
  const { path, decisions } = await broker({ mode: 'open' })
  const odd: (string | Buffer)[][] = [
    ['a.allowed', 'example'],
    ['127', '0', '0', '1'],
    ['0x7f', '1'],
    ['2130706433'],
    [Buffer.from([0xe9]), 'example'],
    ['a b', 'example'],
    ['a%2e', 'example'],
    ['*', 'example'],
    [],
    ['1', '0', '0', '127', 'in-addr', 'arpa'],
  ]
  for (const labels of odd) {
    const answer = await answerOf(path, ask(labels))
    expect([codeOf(answer), countOf(answer)], labels.join('|')).toEqual([3, 0])
  }
  expect(decisions).toHaveLength(odd.length - 1)
  expect(new Set(decisions.map(({ host }) => host))).toEqual(new Set(['(not a host)']))
})

test('a flood of invented names is refused, and neither memory nor log grow with it', async () => {
  const { path, broker: running, decisions } = await broker({ mode: 'restricted' })
  const socket = await open(path, 'names')
  let answers = 0
  let rest = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    for (let read = readFramed(rest); read !== null; read = readFramed(rest)) {
      rest = rest.subarray(read.used)
      answers++
    }
  })
  for (let n = 0; n < 3000; n++) socket.write(framed(ask([`secret${n}`, 'evil', 'example'])))
  await expect.poll(() => answers, { timeout: 20_000 }).toBe(3000)
  expect(running.usage().denied).toHaveLength(1001)
  expect(new Set(decisions.map(({ host }) => host)).size).toBe(1001)
  expect(decisions.at(-1)).toMatchObject({ host: '(other hosts)', port: null })
})

test('an answer to a name that comes after the sandbox has ended brings nobody down', async () => {
  const socket = createSocket('udp4').bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const answer = Promise.withResolvers<Buffer>()
  const lookups = { answer: () => answer.promise } as unknown as Lookups
  const from = { address: '127.0.0.1', port: socket.address().port }
  const answered = answerDatagram(socket, lookups, ask(['late', 'example']), from)
  socket.close()
  answer.resolve(Buffer.from('too late'))
  await expect(answered).resolves.toBeUndefined()
})

test('who may grant a missing name is asked once for it, and a yes is answered with its address', async () => {
  const asked: unknown[] = []
  const setup = await broker(
    { mode: 'restricted' },
    {
      beforeDenial: async (wanted) => {
        asked.push(wanted)
        await new Promise((done) => setTimeout(done, 50))
        setup.broker.setPolicy({
          ...policyOf('granted.example'),
        })
        return null
      },
    },
  )
  const [first, second] = await Promise.all([
    answerOf(setup.path, ask(['granted', 'example'])),
    answerOf(setup.path, ask(['granted', 'example'], recordType.aaaa)),
  ])
  expect([codeOf(first), countOf(first), codeOf(second), countOf(second)]).toEqual([0, 1, 0, 0])
  expect(asked).toEqual([{ host: 'granted.example', port: null }])
  expect(setup.decisions).toEqual([])
})
const policyOf = (host: string) => ({
  mode: 'restricted' as const,
  readOnly: false,
  allow: [{ text: host, host, wildcard: false, port: null }],
  deny: [],
  pins: [],
  taken: [],
  returned: [],
})

test('whatever bytes come, a question is read in full or not at all, and its answer repeats it', () => {
  const label = fc.uint8Array({ minLength: 1, maxLength: 63 }).map((bytes) => Buffer.from(bytes))
  fc.assert(
    fc.property(fc.array(label, { maxLength: 3 }), fc.nat(300), fc.boolean(), (labels, type, extended) => {
      const bytes = ask(labels, type, extended)
      const question = parseQuestion(bytes) as Question
      expect(question).toMatchObject({ id: 0x1234, type, isExtended: extended })
      const shown = labels.map((text) => text.toString('latin1').toLowerCase()).join('.')
      if (question.name !== null) expect(question.name).toBe(shown)
      const answer = encodeAnswer(question, { code: 'ok', addresses: ['127.64.0.1'], why: 'because' })
      expect(answer.subarray(12, 12 + question.bytes.length)).toEqual(question.bytes)
    }),
    { numRuns: 200 },
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      const read = parseQuestion(Buffer.from(bytes))
      if (read === null || Buffer.isBuffer(read)) return
      expect(bytes[2]! & 0x80).toBe(0)
      expect(read.bytes.length).toBeGreaterThanOrEqual(5)
    }),
    { numRuns: 500 },
  )
})

test('where nothing listens for an allowed name it does not resolve, and that is on record', async () => {
  const { path, decisions } = await broker({ allow: ['*.wild.example'] })
  const answer = await answerOf(path, ask(['a', 'wild', 'example']))
  expect([codeOf(answer), countOf(answer)]).toEqual([2, 0])
  expect(decisions).toMatchObject([{ host: 'a.wild.example', port: null, allowed: false, via: 'name' }])
})

test('names below wildcards take a quarter of the open files, however few there are', () => {
  expect([16, 256, 1024, 20_000, null].map(aliasesWithin)).toEqual([1, 10, 42, 128, 128])
})
