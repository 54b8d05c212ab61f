import { createScanner, findNodeAtLocation, parseTree, type Node } from 'jsonc-parser'

/**
 * Adds to and takes from a list in a JSON file with comments, touching nothing else: not a neighbour's layout,
 * not a comment. (jsonc-parser's own `modify` reformats what it touches and drops comments beside it.)
 */
type Splice = { readonly at: number; readonly remove: number; readonly insert: string }

const commaToken = 5

function spliced(text: string, splices: readonly Splice[]): string {
  return [...splices]
    .sort((a, b) => b.at - a.at)
    .reduce(
      (result, { at, remove, insert }) => result.slice(0, at) + insert + result.slice(at + remove),
      text,
    )
}

/** Offset of the first comma outside comments, or null. */
function commaBetween(text: string, from: number, to: number): number | null {
  const scanner = createScanner(text.slice(from, to), false)
  for (let token: number = scanner.scan(); scanner.getTokenLength() > 0; token = scanner.scan()) {
    if (token === commaToken) return from + scanner.getTokenOffset()
  }
  return null
}

const lineStart = (text: string, at: number): number => text.lastIndexOf('\n', at - 1) + 1
const indentAt = (text: string, at: number): string =>
  /^[ \t]*/.exec(text.slice(lineStart(text, at)))?.[0] ?? ''
const end = (node: Node): number => node.offset + node.length

function style(text: string): { eol: string; unit: string } {
  return {
    eol: text.includes('\r\n') ? '\r\n' : '\n',
    unit: /^([ \t]+)["/]/m.exec(text)?.[1] ?? '  ',
  }
}

/** The whole on one line, with the spaces a person would write. */
export function oneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  return `{ ${fields.map(([key, field]) => `${JSON.stringify(key)}: ${oneLine(field)}`).join(', ')} }`
}

/** Puts an item behind the last one between a container's brackets. */
function appended(text: string, container: Node, item: string): string {
  const { eol, unit } = style(text)
  const close = end(container) - 1
  const last = container.children?.at(-1)
  const outer = indentAt(text, container.offset)
  if (last === undefined) {
    const inside = text.slice(container.offset + 1, close)
    const kept = inside.trim() === '' ? '' : inside.trimEnd()
    const at = container.offset + 1
    return spliced(text, [
      { at, remove: close - at, insert: `${kept}${eol}${outer}${unit}${item}${eol}${outer}` },
    ])
  }
  const comma = commaBetween(text, end(last), close)
  const separator: Splice[] = comma === null ? [{ at: end(last), remove: 0, insert: ',' }] : []
  if (!text.slice(end(last), close).includes('\n')) {
    const at = Math.max(end(last), comma === null ? 0 : comma + 1)
    return spliced(text, [{ at, remove: 0, insert: `${comma === null ? ',' : ''} ${item}` }])
  }
  const tail = end(last) + text.slice(end(last), close).trimEnd().length
  const indent = indentAt(text, last.offset)
  // What follows ends the new line, and what is put in ends the old: each as it was, also where a file mixes them.
  const here = /\r?\n/.exec(text.slice(tail, close))?.[0] ?? eol
  // Both may fall on one place; the later of them in this list ends up in front.
  return spliced(text, [{ at: tail, remove: 0, insert: `${here}${indent}${item}` }, ...separator])
}

/** Adds `value` at the end of the list under `key` of the top object, which is made where it is not there. */
export function withListItem(text: string, key: string, value: unknown): string {
  const tree = text.trim() === '' ? undefined : parseTree(text, [], { allowTrailingComma: true })
  if (tree === undefined || tree.type !== 'object') {
    return `{\n  ${JSON.stringify(key)}: [\n    ${oneLine(value)}\n  ]\n}\n`
  }
  const list = findNodeAtLocation(tree, [key])
  if (list?.type === 'array') return appended(text, list, oneLine(value))
  const { eol, unit } = style(text)
  const first = tree.children?.[0]
  const indent = first === undefined || !text.includes('\n') ? unit : indentAt(text, first.offset)
  return appended(
    text,
    tree,
    `${JSON.stringify(key)}: [${eol}${indent}${unit}${oneLine(value)}${eol}${indent}]`,
  )
}

/** Takes the item at `index` out of the list under `key`; its line goes where nothing else is on it. */
export function withoutListItem(text: string, key: string, index: number): string {
  const tree = parseTree(text, [], { allowTrailingComma: true })
  const list = tree === undefined ? undefined : findNodeAtLocation(tree, [key])
  return list === undefined ? text : withoutChild(text, list, index)
}

/** Takes `key` out of the top object where its list is empty, and nobody wrote a comment there. */
export function withoutEmptyList(text: string, key: string): string {
  const tree = parseTree(text, [], { allowTrailingComma: true })
  const isEmpty = (property: Node) =>
    property.children?.[0]?.value === key &&
    /^"[^"]*"\s*:\s*\[\s*\]$/.test(text.slice(property.offset, end(property)))
  const index = tree?.children?.findIndex(isEmpty) ?? -1
  return tree === undefined || index === -1 ? text : withoutChild(text, tree, index)
}

function withoutChild(text: string, list: Node, index: number): string {
  const item = list.children?.[index]
  if (item === undefined) return text
  const next = list.children?.[index + 1]
  const previous = list.children?.[index - 1]
  const after = commaBetween(text, end(item), next?.offset ?? end(list) - 1)
  const before = previous === undefined ? null : commaBetween(text, end(previous), item.offset)
  const comma = after ?? before
  const splices: Splice[] = comma === null ? [] : [{ at: comma, remove: 1, insert: '' }]
  const start = lineStart(text, item.offset)
  const tail = /^[ \t]*,?[ \t]*\r?\n/.exec(text.slice(end(item)))
  const alone = text.slice(start, item.offset).trim() === '' && tail !== null
  if (!alone) return spliced(text, [...splices, { at: item.offset, remove: item.length, insert: '' }])
  const line: Splice = { at: start, remove: end(item) + tail[0].length - start, insert: '' }
  const isOnLine = comma !== null && comma >= line.at && comma < line.at + line.remove
  return spliced(text, isOnLine ? [line] : [...splices, line])
}
