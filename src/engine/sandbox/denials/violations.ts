import { basename } from 'node:path'
import type { Violation } from '../../../shared/effective.ts'
import { pathNamed } from '../plan/writeReason.ts'

type Sign = { readonly kind: string; readonly sign: RegExp; readonly reason: string }

/** Why a path could not be written; of a message that names none in full, null. */
type Why = (path: string | null) => string
const anyWrite: Why = () =>
  'only the workspace can be written, but for roots that are read-only, and only while the boundary is readwrite'

/**
 * What programs print when the sandbox refused them something. Only wordings that are rare elsewhere: a
 * "permission denied" of a server is no business of ours.
 */
const signs: readonly Sign[] = [
  {
    kind: 'write_denied',
    sign: /read-only file system|\bEROFS\b/i,
    reason: '',
  },
  {
    kind: 'network_denied',
    sign: /\bENETUNREACH\b|network is unreachable|network unreachable|no route to host|\bEHOSTUNREACH\b/i,
    reason: 'there is no network but the hosts that were allowed',
  },
  {
    kind: 'name_denied',
    sign: /could not resolve host|temporary failure in name resolution|\bEAI_AGAIN\b|name or service not known|\bENOTFOUND\b|failed to lookup address/i,
    reason: 'only names of hosts that were allowed can be looked up',
  },
  {
    kind: 'socket_denied',
    sign: /address family not supported by protocol|\bEAFNOSUPPORT\b/i,
    reason: 'only unix and internet sockets can be made',
  },
  {
    kind: 'pids',
    sign: /cannot fork|fork: .*resource temporarily unavailable|\bspawn \S+ EAGAIN\b|can't start new thread|pthread_create failed|unable to create .*thread/i,
    reason: 'no more processes and threads can be started than the limit allows',
  },
]

/**
 * What the kernel refuses by its filter or for want of a capability comes as EPERM, which is rare elsewhere: servers and modes of files
 * say "permission denied". Only where it stands as the reason of something, not in the midst of prose.
 */
const refused = /(?:^|[:(\]"'])\s*operation not permitted\b/i
/** Which of them it was, by what is named with it. */
const refusedCalls: readonly Sign[] = [
  {
    kind: 'socket_denied',
    sign: /socket|SOCK_RAW|AF_PACKET|\bicmp|\bping\b/i,
    reason: 'only unix and internet sockets can be made, and no raw ones',
  },
  {
    kind: 'call_denied',
    sign: /chmod|permissions of|mode of/i,
    reason: 'no file can be made set-uid, and modes are for who owns the file',
  },
  {
    kind: 'call_denied',
    sign: /(?:)/,
    reason:
      'the kernel refuses this to everything inside: there are no capabilities, and calls that could lead out are filtered',
  },
]
/** The last line of a Python trace names no call: the lines before it do. */
const bareRefusal = /^(?:\w+\.)*(?:PermissionError|OSError): \[Errno 1\] Operation not permitted$/
const mostBefore = 4

/**
 * Without one of these in it no line tells of a denial. Plain words, found in one pass: looking at every line of
 * a flood by itself takes many times as long as printing it.
 */
const hint =
  /read-only file system|erofs|unreach|no route to host|could not resolve host|failure in name resolution|eai_again|name or service not known|enotfound|failed to lookup|address family not|eafnosupport|cannot fork|temporarily unavailable|eagain|start new thread|pthread_create|unable to create|operation not permitted/i

/** The broker's own words: the host was allowed, and nobody answered. */
const unreached = /\bOrangery could not reach \S+: /

const longestLine = 2000
const mostViolations = 100
const leftOut = `more denials were printed and are left out: of each stream the first ${mostViolations} are listed`
// Colours and cursor movements: they tell nothing, and would make equal lines differ.
// eslint-disable-next-line no-control-regex
const controls = /\u001B\[[0-9;?]*[A-Za-z]|[\u0000-\u0008\u000B-\u001F\u007F]/g

const plain = (line: string) => line.replaceAll(controls, '').trim()

/** The likely denial a line of output tells of, if any; `before` are the lines that came before it. */
export function readDenial(
  line: string,
  at: string,
  before: readonly string[] = [],
  whyNotWritten: Why = anyWrite,
): Violation | null {
  const last = plain(line)
  // Of a trace, the line that made the call: not where it stands, nor what underlines it.
  const called = bareRefusal.test(last)
    ? before.map(plain).findLast((text) => /\(/.test(text) && !text.startsWith('File "'))
    : undefined
  const text = called === undefined ? last : `${called}: ${last}`
  if (unreached.test(text)) return null
  const found =
    signs.find(({ sign }) => sign.test(text)) ??
    (refused.test(text) ? refusedCalls.find(({ sign }) => sign.test(text)) : undefined)
  if (found === undefined) return null
  const said = text.length > 300 ? `${text.slice(0, 300)}…` : text
  const reason = found.kind === 'write_denied' ? whyNotWritten(pathNamed(text)) : found.reason
  return { kind: found.kind, at, detail: `${said} (${reason})`, certain: false }
}

/** Reads output as it comes, in pieces, and tells of each likely denial once. */
export class DenialReader {
  #rest = ''
  #before: readonly string[] = []
  readonly #told = new Set<string>()
  readonly #whyNotWritten: Why

  constructor(whyNotWritten: Why = anyWrite) {
    this.#whyNotWritten = whyNotWritten
  }

  read(chunk: string | Uint8Array, at: string): readonly Violation[] {
    const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8')
    const all = this.#rest + text
    // A program that never ends its line must not make us keep all of it.
    this.#rest = all.slice(Math.max(all.lastIndexOf('\n') + 1, all.length - longestLine))
    if (this.#told.size > mostViolations) return []
    if (!hint.test(all.replaceAll(controls, ''))) {
      this.#remember(all.slice(-longestLine).split('\n').slice(0, -1))
      return []
    }
    const lines = all.split('\n').slice(0, -1)
    return lines.flatMap((line) => this.#tell(line.slice(0, longestLine), at))
  }

  #remember(lines: readonly string[]): void {
    this.#before = [...this.#before, ...lines].slice(-mostBefore)
  }

  end(at: string): readonly Violation[] {
    const last = this.#rest
    this.#rest = ''
    return this.#tell(last, at)
  }

  #tell(line: string, at: string): readonly Violation[] {
    const denial = readDenial(line, at, this.#before, this.#whyNotWritten)
    this.#remember([line])
    if (denial === null || this.#told.size > mostViolations) return []
    const key = `${denial.kind} ${denial.detail}`
    if (this.#told.has(key)) return []
    this.#told.add(key)
    return [this.#told.size > mostViolations ? { ...denial, detail: leftOut } : denial]
  }
}

/**
 * A write that was seen on its way and one that a program prints are the same denial where the name is the same, or where
 * the program names nothing.
 */
export class DeniedWrites {
  readonly #names = new Set<string>()
  /** Those of which no program has spoken yet. */
  readonly #unspoken = new Set<string>()
  readonly #printed: string[] = []
  readonly #whyNotWritten: Why

  constructor(whyNotWritten: Why = anyWrite) {
    this.#whyNotWritten = whyNotWritten
  }

  /** Likely: the mount refuses such a write, but another reason may come first. Null where it was told already. */
  seen(path: string, at: string): Violation | null {
    const name = basename(path)
    this.#names.add(name)
    if (this.#printed.some((text) => isNamed(text, name))) return null
    this.#unspoken.add(name)
    return { kind: 'write_denied', at, detail: `${path} (${this.#whyNotWritten(path)})`, certain: false }
  }

  isNewsPrinted(text: string): boolean {
    const named = [...this.#names].filter((name) => isNamed(text, name))
    const spokenOf = named.length > 0 || namesSomething(text) ? named : [...this.#unspoken].slice(-1)
    for (const name of spokenOf) this.#unspoken.delete(name)
    if (spokenOf.length > 0) return false
    this.#printed.push(text)
    return true
  }
}

/** Whether a name may be in it: in quotes, or with a slash or a dot inside. Our reason in brackets is none of it. */
const namesSomething = (text: string) => /['"‘`]|\S[/.]\w|\s\//.test(text.replace(/ \([^()]*\)$/, ''))

/** As a whole name, not as part of another. */
const isNamed = (text: string, name: string) =>
  text.split(name).some((before, index, parts) => {
    const after = parts[index + 1]
    return after !== undefined && !/[\w.-]$/.test(before) && !/^[\w-]/.test(after)
  })
