/** One question of a program about a name (RFC 1035), as far as we answer such questions. */
export type Question = {
  readonly id: number
  /** As it was asked, in lower case; null where it is no name that a host could have. */
  readonly name: string | null
  readonly type: number
  readonly wantsRecursion: boolean
  /** Whether it understands more than the oldest form, and with it a reason for a refusal. */
  readonly isExtended: boolean
  /** The question's own bytes: the answer repeats them. */
  readonly bytes: Buffer
}

export type Answer = {
  readonly code: 'ok' | 'badly asked' | 'failed' | 'no such name' | 'not done'
  /** IPv4 addresses; only a question for these is answered with them. */
  readonly addresses?: readonly string[]
  /** Why there is none, for those who show it. */
  readonly why?: string
}

export const recordType = { a: 1, aaaa: 28, extension: 41 } as const
const codes = { ok: 0, 'badly asked': 1, failed: 2, 'no such name': 3, 'not done': 4 } as const
const headLength = 12
const internet = 1
/** Long enough to use, short enough that nobody is led to a listener that is gone for long. */
const lastsSeconds = 5
const blocked = 15
const explanation = 15
const largestDatagram = 1232
const longestReason = 400

/**
 * Reads a question. Null: it is none, and answering could begin an endless exchange. `badly asked` and `not done`
 * are for questions that can be answered with no more than that.
 */
export function parseQuestion(message: Buffer): Question | Buffer | null {
  if (message.length < headLength) return null
  const flags = message.readUInt16BE(2)
  if ((flags & 0x8000) !== 0) return null
  const reject = (code: 'badly asked' | 'not done') => head(message.readUInt16BE(0), flags, codes[code])
  if ((flags & 0x7800) !== 0) return reject('not done')
  const [questions, answers, authorities, more] = [4, 6, 8, 10].map((at) => message.readUInt16BE(at))
  if (questions !== 1 || answers !== 0 || authorities !== 0) return reject('badly asked')
  const labels: string[] = []
  let at = headLength
  for (;;) {
    const length = message[at] ?? 64
    // Above 63 it points elsewhere in the message: a question has no elsewhere.
    if (length > 63 || at + 1 + length > message.length) return reject('badly asked')
    at += 1
    if (length === 0) break
    labels.push(message.toString('latin1', at, at + length))
    at += length
    if (at - headLength > 254) return reject('badly asked')
  }
  if (at + 4 > message.length) return reject('badly asked')
  const isInternet = message.readUInt16BE(at + 2) === internet
  const end = at + 4
  return {
    id: message.readUInt16BE(0),
    name: isInternet ? nameOf(labels) : null,
    type: message.readUInt16BE(at),
    wantsRecursion: (flags & 0x0100) !== 0,
    isExtended:
      (more ?? 0) > 0 && message[end] === 0 && end + 3 <= message.length
        ? message.readUInt16BE(end + 1) === recordType.extension
        : false,
    bytes: message.subarray(headLength, end),
  }
}

/** A dot inside a label would make two of one: what is matched must be what was asked. (escape: dotted-label) */
const nameOf = (labels: readonly string[]): string | null =>
  labels.length > 0 && labels.every((label) => /^[\x21-\x2d\x2f-\x7e]+$/.test(label))
    ? labels.join('.').toLowerCase()
    : null

export function encodeAnswer(question: Question, { code, addresses = [], why }: Answer): Buffer {
  const records = question.type === recordType.a ? addresses.map(addressRecord) : []
  const reason = question.isExtended ? [extensionRecord(why)] : []
  const flags = 0x0080 | (question.wantsRecursion ? 0x0100 : 0)
  const first = head(question.id, flags, codes[code])
  first.writeUInt16BE(1, 4)
  first.writeUInt16BE(records.length, 6)
  first.writeUInt16BE(reason.length, 10)
  return Buffer.concat([first, question.bytes, ...records, ...reason])
}

function head(id: number, flags: number, code: number): Buffer {
  const bytes = Buffer.alloc(headLength)
  bytes.writeUInt16BE(id, 0)
  bytes.writeUInt16BE(0x8000 | (flags & 0x7980) | code, 2)
  return bytes
}

function addressRecord(address: string): Buffer {
  const bytes = Buffer.alloc(16)
  // The name is the one of the question.
  bytes.writeUInt16BE(0xc000 | headLength, 0)
  bytes.writeUInt16BE(recordType.a, 2)
  bytes.writeUInt16BE(internet, 4)
  bytes.writeUInt32BE(lastsSeconds, 6)
  bytes.writeUInt16BE(4, 10)
  bytes.set(address.split('.').map(Number), 12)
  return bytes
}

/** Of EDNS (RFC 6891) what is needed to say why a name is blocked (RFC 8914): dig and resolved show it. */
function extensionRecord(why: string | undefined): Buffer {
  const text = Buffer.from(why ?? '').subarray(0, longestReason)
  const option = Buffer.alloc(why === undefined ? 0 : 6 + text.length)
  if (why !== undefined) {
    option.writeUInt16BE(explanation, 0)
    option.writeUInt16BE(2 + text.length, 2)
    option.writeUInt16BE(blocked, 4)
    option.set(text, 6)
  }
  const bytes = Buffer.alloc(11)
  bytes.writeUInt16BE(recordType.extension, 1)
  bytes.writeUInt16BE(largestDatagram, 3)
  bytes.writeUInt16BE(option.length, 9)
  return Buffer.concat([bytes, option])
}
