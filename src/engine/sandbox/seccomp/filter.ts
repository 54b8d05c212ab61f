import { auditArchitecture, syscallNumber, type Architecture } from './syscalls.ts'
import type { Answer, Rule } from './rules.ts'

type Instruction = readonly [code: number, jumpTrue: number, jumpFalse: number, k: number]

const loadWord = 0x20 // BPF_LD | BPF_W | BPF_ABS
const jumpIfEqual = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
const jumpIfAtLeast = 0x35 // BPF_JMP | BPF_JGE | BPF_K
const jumpIfAnyBit = 0x45 // BPF_JMP | BPF_JSET | BPF_K
const returnValue = 0x06 // BPF_RET | BPF_K

const allow = 0x7fff0000
const killProcess = 0x80000000
const refusal = 0x00050000
const answers: Readonly<Record<Answer, number>> = {
  EPERM: refusal | 1,
  ENOSYS: refusal | 38,
  EAFNOSUPPORT: refusal | 97,
  notify: 0x7fc00000,
}

const numberOffset = 0
const architectureOffset = 4
// Low word of an argument; both architectures are little-endian. The kernel itself reads the arguments
// compared here as 32-bit, so the high word cannot make a refused value pass as another.
const argumentOffset = (index: number) => 16 + 8 * index

const x32Bit = 0x40000000

function ruleBody(rule: Rule): readonly Instruction[] {
  const refuse: Instruction = [returnValue, 0, 0, answers[rule.answer]]
  const pass: Instruction = [returnValue, 0, 0, allow]
  const { when } = rule
  switch (when.kind) {
    case 'always':
      return [refuse]
    case 'if-any-bit':
      return [[loadWord, 0, 0, argumentOffset(when.argument)], [jumpIfAnyBit, 0, 1, when.bits], refuse, pass]
    case 'if-any-bit-of-each': {
      const tests = when.tests.flatMap(({ argument, bits }, index): readonly Instruction[] => [
        [loadWord, 0, 0, argumentOffset(argument)],
        // Where one has none, over the tests that are left and the refusal.
        [jumpIfAnyBit, 0, 2 * (when.tests.length - 1 - index) + 1, bits],
      ])
      return [...tests, refuse, pass]
    }
    case 'if-equal':
    case 'unless-equal': {
      const [onMatch, otherwise] = when.kind === 'if-equal' ? [refuse, pass] : [pass, refuse]
      const tests = when.values.map((value, index): Instruction => [
        jumpIfEqual,
        when.values.length - index,
        0,
        value,
      ])
      return [[loadWord, 0, 0, argumentOffset(when.argument)], ...tests, otherwise, onMatch]
    }
  }
}

const built = new WeakMap<readonly Rule[], Map<Architecture, Buffer>>()

/**
 * The filter as classic BPF, ready for `bwrap --seccomp`. Made once for a list of rules. `foreign`: what is answered
 * to calls with numbers of another architecture.
 */
export function buildFilter(
  rules: readonly Rule[],
  architecture: Architecture,
  foreign: 'kill' | 'allow' = 'kill',
): Buffer {
  const known = built.get(rules) ?? new Map<Architecture, Buffer>()
  const filter =
    known.get(architecture) ?? assemble(rules, architecture, foreign === 'kill' ? killProcess : allow)
  built.set(rules, known.set(architecture, filter))
  return filter
}

function assemble(rules: readonly Rule[], architecture: Architecture, foreign: number): Buffer {
  const program: Instruction[] = [
    // 32-bit calls (int 0x80) have numbers of their own: without this they would pass as harmless ones.
    [loadWord, 0, 0, architectureOffset],
    [jumpIfEqual, 1, 0, auditArchitecture[architecture]],
    [returnValue, 0, 0, foreign],
    [loadWord, 0, 0, numberOffset],
  ]
  // x32 calls carry a bit in the number that would make every comparison below fail.
  if (architecture === 'x64') program.push([jumpIfAtLeast, 0, 1, x32Bit], [returnValue, 0, 0, foreign])
  for (const rule of rules) {
    const number = syscallNumber(rule.call, architecture)
    if (number === null) continue
    const body = ruleBody(rule)
    program.push([jumpIfEqual, 0, body.length, number], ...body)
  }
  program.push([returnValue, 0, 0, allow])

  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(([code, jumpTrue, jumpFalse, k], index) => {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(jumpTrue, index * 8 + 2)
    bytes.writeUInt8(jumpFalse, index * 8 + 3)
    bytes.writeUInt32LE(k >>> 0, index * 8 + 4)
  })
  return bytes
}
