import { expect, test } from 'vitest'
import { OrangeryError } from './errors.ts'
import { parseSandboxSpec, requestedBoundary, requestedLevel } from './spec.ts'

function refusal(text: string): OrangeryError {
  try {
    parseSandboxSpec(text)
  } catch (error) {
    if (error instanceof OrangeryError) return error
    throw error
  }
  throw new Error(`${text} was accepted`)
}

test('the example of the specification is a valid spec', () => {
  const spec = parseSandboxSpec(`{ "tools_allowed": ["Read"], "tools_denied": [], "working_dir": "/abs",
    "access_mode": "workspace-write", "max_turns": 50, "max_commands": 200, "changeset": "overlay",
    "platform": "linux", "isolation": "os", "software": "linux", "boundary": "readwrite", "phase": "build",
    "outputs": {"mode": "restricted", "allow": ["api.example.com:443", "*.example.org"], "deny": [],
                "pins": {"db.test:5432": "127.0.0.1:5432"}},
    "roots": ["/abs/a", "/abs/b"], "hide": [".env*"], "on_limit": "record",
    "limits": {"cpus": 2, "memory_mb": 4096, "pids": 512, "disk_mb": 2048, "timeout_s": 3600} }`)
  expect(spec.limits?.cpus).toBe(2)
  expect(requestedLevel(spec)).toBe(1)
  expect(requestedBoundary(spec)).toBe('readwrite')
})

test('a time limit of a month, or of a year, is in order', () => {
  for (const days of [30, 366]) {
    const spec = parseSandboxSpec(`{"limits":{"timeout_s":${days * 86_400}}}`)
    expect(spec.limits?.timeout_s).toBe(days * 86_400)
  }
})

test('an empty spec asks for nothing', () => {
  const spec = parseSandboxSpec('{}')
  expect(requestedLevel(spec)).toBeUndefined()
  expect(requestedBoundary(spec)).toBeUndefined()
})

test('fields that are not known are kept as they were given, at every depth', () => {
  expect(parseSandboxSpec('{"later":{"x":[1]},"limits":{"gpus":1},"outputs":{"via":"tor"}}')).toEqual({
    later: { x: [1] },
    limits: { gpus: 1 },
    outputs: { via: 'tor' },
  })
})

test('a field that nobody knows may be given twice, whatever its name', () => {
  for (const name of ['later', 'constructor', '__proto__', 'toString'])
    expect(() => parseSandboxSpec(`{"${name}":1,"${name}":2}`)).not.toThrow()
  expect(() => parseSandboxSpec('{"limits":{"gpus":1,"gpus":2}}')).not.toThrow()
})

test.each([
  ['not JSON at all', 'read-only', 'spec.not_json'],
  ['a comma too many', '{"access_mode":"full",}', 'spec.not_json'],
  ['a list', '[]', 'spec.invalid'],
  ['null', 'null', 'spec.invalid'],
  ['an access mode that does not exist', '{"access_mode":"rw"}', 'spec.invalid'],
  ['a relative root', '{"roots":["project"]}', 'spec.invalid'],
  ['a root that goes up again', '{"roots":["/project/../etc"]}', 'spec.invalid'],
  ['a path with a NUL', '{"working_dir":"/a\\u0000b"}', 'spec.invalid'],
  ['a number beyond all numbers', '{"max_turns":1e999}', 'spec.invalid'],
  ['half a turn', '{"max_turns":1.5}', 'spec.invalid'],
  ['a time limit beyond all time', '{"limits":{"timeout_s":1e300}}', 'spec.invalid'],
  ['more memory than there is', '{"limits":{"memory_mb":1e300}}', 'spec.invalid'],
  ['no memory', '{"limits":{"memory_mb":0}}', 'spec.invalid'],
  ['a string for a list', '{"tools_allowed":"Read"}', 'spec.invalid'],
  ['a level that does not exist', '{"level":4}', 'spec.invalid'],
  ['a level of the prototype', '{"level":"constructor"}', 'spec.invalid'],
  ['a field given twice', '{"access_mode":"read-only","access_mode":"full"}', 'spec.repeated_field'],
  ['an escaped field given twice', '{"boundary":"readonly","bound\\u0061ry":"full"}', 'spec.repeated_field'],
  ['an output mode given twice', '{"outputs":{"mode":"none","mode":"open"}}', 'spec.repeated_field'],
  [
    'a pin given twice',
    '{"outputs":{"pins":{"a:1":"10.0.0.1:1","a:1":"10.0.0.2:1"}}}',
    'spec.repeated_field',
  ],
  ['a nest without end', `{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'spec.too_deep'],
  ['a nest deeper than anybody means', `{"x":${'['.repeat(501)}${']'.repeat(501)}}`, 'spec.too_deep'],
  ['half a character', '{"x":"\ud800"}', 'spec.not_text'],
  ['more than a mebibyte', `{"x":"${'é'.repeat(600_000)}"}`, 'spec.too_large'],
])('%s is bad input, told in one line', (_, text, code) => {
  const error = refusal(text)
  expect(error).toMatchObject({ code, kind: 'input', exitCode: 65 })
  expect(error.message).toMatch(/^sandbox spec: [^\n]+$/)
  expect(error.hint).toBeTruthy()
})

test('a pattern that can hide nothing in a root is bad input that says why', () => {
  const wrong = ['', ' ', '/', './', '~/', '..', 'a/../sec', '../x', '!n', '{.env,n}', 'a{1..3}', '@(a|b)']
  for (const pattern of [...wrong, '$HOME/x', '${HOME}/x', 'x\\', '**/a/**/b/**/c/**/d/**', 'a\0b']) {
    const error = refusal(JSON.stringify({ hide: [pattern] }))
    expect(error).toMatchObject({ code: 'spec.invalid', exitCode: 65 })
    expect(error.message).toContain(`hide.0: ${JSON.stringify(pattern)} `)
  }
  const right = [
    '.env*',
    '**/.env',
    '\\!n',
    '{{name}}',
    '\\{a,b}',
    '$id.tsx',
    '[id].ts',
    '~/a/b',
    '/a',
    'a..b',
  ]
  expect(parseSandboxSpec(JSON.stringify({ hide: right })).hide).toEqual(right)
})

test('brackets inside of strings are no nest', () => {
  const text = `{"x":"\\"${'['.repeat(600)}"}`
  expect(parseSandboxSpec(text)).toEqual({ x: `"${'['.repeat(600)}` })
})

test('a field we merely keep may be given twice', () => {
  expect(parseSandboxSpec('{"note":1,"note":2}')).toEqual({ note: 2 })
})

test('level and isolation are one thing said twice: alike they agree, different they are bad input', () => {
  expect(parseSandboxSpec('{"level":2,"isolation":"container"}').isolation).toBe('container')
  expect(parseSandboxSpec('{"level":"docker"}').isolation).toBe('container')
  expect(parseSandboxSpec('{"level":"vm"}').isolation).toBe('vm')
  expect(refusal('{"level":0,"isolation":"os"}').code).toBe('spec.contradiction')
})

test('access mode and boundary are one thing said twice: alike they agree, different they are bad input', () => {
  expect(parseSandboxSpec('{"access_mode":"workspace-write","boundary":"network"}').boundary).toBe('network')
  expect(refusal('{"access_mode":"read-only","boundary":"readwrite"}').code).toBe('spec.contradiction')
  expect(refusal('{"access_mode":"full","boundary":"network"}').code).toBe('spec.contradiction')
})

test('roots that name no folder are bad input, and not the folder one happens to be in', () => {
  expect(refusal('{"roots":[]}')).toMatchObject({
    exitCode: 65,
    message: 'sandbox spec: roots: names no folder',
  })
})
