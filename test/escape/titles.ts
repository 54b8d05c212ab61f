import { parseSync } from 'oxc-parser'

type Node = { readonly type: string; readonly [key: string]: unknown }

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'

const functions = new Set(['test', 'it', 'describe'])
/** What keeps a test from running, or from counting. */
const switchedOff = new Set(['skip', 'todo', 'fails', 'fixme', 'fail'])

/** `test.each([1])` is called as `test`, with `each` on the way. */
function wayOf(callee: unknown): { readonly name: string; readonly way: readonly string[] } | null {
  if (!isNode(callee)) return null
  if (callee.type === 'Identifier') return { name: String(callee['name']), way: [] }
  if (callee.type === 'CallExpression') {
    const inner = wayOf(callee['callee'])
    if (inner === null) return null
    // Under a condition that is written out, it never runs or always does.
    const [first] = callee['arguments'] as readonly unknown[]
    const isConstant = isNode(first) && first.type === 'Literal'
    const isOff =
      isConstant &&
      ((inner.way.includes('skipIf') && Boolean(first['value'])) ||
        (inner.way.includes('runIf') && !first['value']))
    return isOff ? { ...inner, way: [...inner.way, 'skip'] } : inner
  }
  if (callee.type === 'TaggedTemplateExpression') return wayOf(callee['tag'])
  if (callee.type !== 'MemberExpression') return null
  const inner = wayOf(callee['object'])
  const property = callee['property']
  return inner === null || !isNode(property)
    ? null
    : { ...inner, way: [...inner.way, String(property['name'])] }
}

/** A title as it is written; where something is put in, there is a gap. */
function titleOf(argument: unknown): string | null {
  if (!isNode(argument)) return null
  if (argument.type === 'Literal') return typeof argument['value'] === 'string' ? argument['value'] : null
  if (argument.type === 'BinaryExpression' && argument['operator'] === '+')
    return `${titleOf(argument['left']) ?? '…'}${titleOf(argument['right']) ?? '…'}`
  if (argument.type !== 'TemplateLiteral') return null
  const parts = argument['quasis'] as readonly { readonly value: { readonly cooked: string } }[]
  return parts.map(({ value }) => value.cooked).join('…')
}

/** The titles of the tests of a file that run: not of those that are skipped, or stand in a comment or a string. */
export function titlesIn(file: string, text: string): readonly string[] {
  const titles: string[] = []
  const look = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(look)
    if (!isNode(value)) return
    if (value.type === 'IfStatement') {
      const test = value['test']
      if (isNode(test) && test.type === 'Literal')
        return look(test['value'] ? value['consequent'] : value['alternate'])
    }
    if (value.type === 'CallExpression') {
      const called = wayOf(value['callee'])
      const args = value['arguments'] as readonly unknown[]
      if (called !== null && functions.has(called.name) && args.length > 1) {
        if (called.way.some((step) => switchedOff.has(step))) return
        const title = titleOf(args[0])
        if (title !== null && called.name !== 'describe') titles.push(title)
      }
    }
    for (const each of Object.values(value)) look(each)
  }
  look(parseSync(file, text).program)
  return titles
}
