// What the seccomp filter does on a real kernel: makes each call it speaks of, and every other, inside a sandbox and
// outside. Only for the lab, as root there: the control makes the same calls with nothing to stop them.
import { spawnSync } from 'node:child_process'
import { chownSync, mkdtempSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { rules } from '../../src/engine/sandbox/seccomp/rules.ts'
import { syscallNumber } from '../../src/engine/sandbox/seccomp/syscalls.ts'

const lastNumber = 470
const answers = new Set(['EPERM', 'ENOSYS', 'EAFNOSUPPORT', 'SIGSYS'])
const bitsOf = (mask) => Array.from({ length: 31 }, (_, place) => 1 << place).filter((bit) => mask & bit)
// Of sockets, of which alone a rule says what is not refused.
const families = Array.from({ length: 46 }, (_, family) => family)
const withEach = (argument, values) => values.map((value) => ({ [argument]: value }))

/** The arguments with which a rule refuses its call, and with which it lets it pass; -1 is what no call can use. */
function argumentsOf({ when }) {
  const { argument, bits, tests = [{ argument, bits }], values } = when
  switch (when.kind) {
    case 'always':
      return { refused: [{}], passed: [] }
    case 'if-any-bit':
    case 'if-any-bit-of-each': {
      const one = (refused, test) =>
        refused.flatMap((given) => bitsOf(test.bits).map((bit) => ({ ...given, [test.argument]: bit })))
      const all = Object.fromEntries(tests.map((test) => [test.argument, test.bits]))
      const passed = tests.map((test) => ({ ...all, [test.argument]: ~test.bits >>> 0 }))
      return { refused: tests.reduce(one, [{}]), passed }
    }
    case 'if-equal': {
      const next = values.map((value) => value + 1)
      return { refused: withEach(argument, values), passed: withEach(argument, next) }
    }
    default: {
      const others = families.filter((value) => !values.includes(value))
      return { refused: withEach(argument, others), passed: withEach(argument, values) }
    }
  }
}

const ruled = rules.flatMap((rule) => {
  const number = syscallNumber(rule.call, process.arch)
  if (number === null) return []
  const { refused, passed } = argumentsOf(rule)
  return [
    ...refused.map((given) => ({ name: rule.call, number, given, answer: rule.answer })),
    ...passed.map((given) => ({ name: rule.call, number, given, answer: null })),
  ]
})
const others = Array.from({ length: lastNumber + 1 }, (_, number) => number)
  .filter((number) => ruled.every((call) => call.number !== number))
  .map((number) => ({ name: 'another', number, given: {}, answer: null }))
const calls = [...ruled, ...others]

const script = String.raw`
use POSIX ();
$| = 1;
while (<STDIN>) {
  my ($number, @given) = map { $_ + 0 } split;
  my $child = fork // die "fork: $!\n";
  if (!$child) {
    alarm 5;
    POSIX::_exit(syscall($number, @given) == -1 ? $! + 0 : 0);
  }
  waitpid $child, 0;
  print "$?\n";
}
`

// Ends with 7 at once: 32-bit calls of the same processor, which the kernel would carry out.
const foreign = {
  arm64: { machine: 40, flags: 0x5000000, code: '0700a0e30170a0e3000000ef' },
  x64: { machine: 3, flags: 0, code: 'bb07000000b801000000cd80' },
}[process.arch]

/** The smallest ELF file: its header, one segment, and the code. */
function foreignProgram() {
  const code = Buffer.from(foreign.code, 'hex')
  const [base, begin] = [0x10000, 84]
  const size = begin + code.length
  const file = Buffer.alloc(begin)
  file.write('\x7fELF\x01\x01\x01', 'latin1')
  const words = { 20: 1, 24: base + begin, 28: 52, 36: foreign.flags }
  const segment = { 52: 1, 60: base, 64: base, 68: size, 72: size, 76: 5, 80: 4096 }
  const halves = { 16: 2, 18: foreign.machine, 40: 52, 42: 32, 44: 1 }
  for (const [at, value] of Object.entries({ ...words, ...segment })) file.writeUInt32LE(value, Number(at))
  for (const [at, value] of Object.entries(halves)) file.writeUInt16LE(value, Number(at))
  return Buffer.concat([file, code])
}

const errno = Object.fromEntries(Object.entries(constants.errno).map(([name, number]) => [number, name]))
const signal = Object.fromEntries(Object.entries(constants.signals).map(([name, number]) => [number, name]))
const nameOf = (status) => {
  if (status & 127) return signal[status & 127] ?? `signal ${status & 127}`
  return status === 0 ? 'success' : (errno[status >> 8] ?? `errno ${status >> 8}`)
}

/** What it comes to for a user: of each call, and of the program of another architecture. */
function ask(user, inside) {
  const folder = mkdtempSync('/var/tmp/seccomp-')
  const words = ({ number, given }) =>
    [number, ...Array.from({ length: 6 }, (_, at) => given[at] ?? -1)].join(' ')
  writeFileSync(join(folder, 'calls'), calls.map((call) => `${words(call)}\n`).join(''))
  writeFileSync(join(folder, 'try.pl'), script)
  writeFileSync(join(folder, 'foreign'), foreignProgram(), { mode: 0o755 })
  const id = Number(spawnSync('id', ['-u', user]).stdout)
  chownSync(folder, id, id)
  for (const name of ['calls', 'try.pl', 'foreign']) chownSync(join(folder, name), id, id)
  const through = inside ? `${dirname(dirname(import.meta.dirname))}/bin/orangery run -q -- ` : ''
  const as = (command) =>
    spawnSync('runuser', ['-l', user, '-c', `cd ${folder} && ${through}${command}`], { encoding: 'utf8' })
  const tried = as('perl try.pl <calls')
  const found = tried.stdout.trim().split('\n').map(Number).map(nameOf)
  if (found.length !== calls.length)
    throw new Error(`${found.length} of ${calls.length} calls: ${tried.stderr}`)
  const { status } = as('sh -c "./foreign; exit \\$?"')
  return { found, foreign: status }
}

let wrong = 0
const claim = (isTrue, what) => {
  if (isTrue) return
  wrong++
  console.log(`WRONG  ${what}`)
}
// What is refused must be answered otherwise to root outside; what passes, as to whoever has no capabilities there.
const [root, ordinary] = [ask('root', false), ask('dev', false)]
for (const user of ['root', 'dev']) {
  const inside = ask(user, true)
  calls.forEach(({ name, number, given, answer }, at) => {
    const [here, forRoot, forOrdinary] = [inside.found[at], root.found[at], ordinary.found[at]]
    const what = `${user}: ${name} (${number}) ${JSON.stringify(given)}: ${here}; outside ${forOrdinary}, as root ${forRoot}`
    if (process.argv.includes('--all')) console.log(what)
    if (answer === null) claim(here === forOrdinary || !answers.has(here), what)
    else claim(here === answer && forRoot !== answer, `${what}; the rule says ${answer}`)
  })
  const ended = `${user}: a 32-bit program ended with ${inside.foreign}, outside with ${ordinary.foreign}`
  console.log(ended)
  claim(inside.foreign === 128 + constants.signals.SIGSYS && ordinary.foreign === 7, ended)
}
const refused = calls.filter(({ answer }) => answer !== null)
const numbers = new Set(refused.map(({ number }) => number))
console.log(
  `${process.arch}: ${numbers.size} system calls are refused, in ${refused.length} ways; ${calls.length - refused.length} others pass; ${wrong} wrong`,
)
process.exit(wrong === 0 ? 0 : 1)
