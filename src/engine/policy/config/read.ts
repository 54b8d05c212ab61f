import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import {
  createScanner,
  findNodeAtLocation,
  getNodeValue,
  parseTree,
  printParseErrorCode,
  type Node,
  type ParseError,
} from 'jsonc-parser'
import type { z } from 'zod'
import { boundaryLevels, phases } from '../../../shared/boundary.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import {
  configFileSchema,
  credentialSchema,
  savedApprovalSchema,
  selectionRuleSchema,
  type ConfigFile,
  type ConfigNotice,
} from '../../../shared/config.ts'
import { bytesOf, textOf } from './bytes.ts'

/** Far above any real config; a repository must not make the host read without end. */
const largestConfigBytes = 512 * 1024

export type ConfigText = {
  readonly file: string
  readonly text: string
  readonly sha256: string
}

export type ConfigLayer = ConfigText & {
  readonly values: ConfigFile
  readonly warnings: readonly ConfigNotice[]
  /** Line, counted from 1, of a key given as a path; of its nearest parent where it is not there. */
  lineOf(path: readonly (string | number)[]): number
}

export const sha256Of = (content: Buffer | string): string =>
  createHash('sha256')
    .update(typeof content === 'string' ? bytesOf(content) : content)
    .digest('hex')

function unreadable(file: string, why: string, hint: string): OrangeryError {
  return new OrangeryError('config.unreadable', `${file}: ${why}`, { kind: 'input', hint })
}

/** Null where there is no such file. The user's own file may be a link (dotfiles folders are), a project's may not. */
export async function readConfigText(
  file: string,
  options: { readonly follow?: boolean } = {},
): Promise<ConfigText | null> {
  // A repository may hold a fifo, a device or a link to one: never block on it, never follow it. (escape: config-fifo)
  const link = options.follow === true ? 0 : constants.O_NOFOLLOW
  const flags = constants.O_RDONLY | link | constants.O_NONBLOCK
  let handle
  try {
    handle = await open(file, flags)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    if (code === 'ELOOP') {
      throw unreadable(file, 'is a symbolic link', 'Put the file itself there; a linked config is not read.')
    }
    throw unreadable(
      file,
      `cannot be read (${code ?? 'unknown'})`,
      'Make the file readable, or move it away.',
    )
  }
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw unreadable(file, 'is not a regular file', 'Replace it by a JSON file.')
    if (stat.size > largestConfigBytes) {
      throw unreadable(file, `is larger than ${largestConfigBytes} bytes`, 'Make it shorter.')
    }
    const bytes = await handle.readFile()
    return { file, text: textOf(bytes), sha256: sha256Of(bytes) }
  } finally {
    await handle.close()
  }
}

/** Far deeper than any real config; a parser that recurses would run out of stack on a hostile one. */
const deepestNesting = 32

function isTooDeep(text: string): boolean {
  const scanner = createScanner(text, true)
  let depth = 0
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    const token = text[scanner.getTokenOffset()]
    if (token === '{' || token === '[') depth += 1
    if (token === '}' || token === ']') depth -= 1
    if (depth > deepestNesting) return true
  }
  return false
}

function lineAt(text: string, offset: number): number {
  let line = 1
  for (let index = text.indexOf('\n'); index >= 0 && index < offset; index = text.indexOf('\n', index + 1)) {
    line += 1
  }
  return line
}

function nearestNode(tree: Node | undefined, path: readonly (string | number)[]): Node | undefined {
  if (tree === undefined) return undefined
  for (let length = path.length; length >= 0; length -= 1) {
    const node = findNodeAtLocation(tree, path.slice(0, length))
    if (node !== undefined) return node
  }
  return tree
}

/** A key that is given twice would be read from one place, and edited or named at the other. */
function repeatedKey(node: Node | undefined): Node | undefined {
  const names = new Set<unknown>()
  for (const child of node?.children ?? []) {
    const key = child.type === 'property' ? child.children?.[0] : undefined
    if (key !== undefined && names.has(key.value)) return key
    if (key !== undefined) names.add(key.value)
    const deeper = repeatedKey(key === undefined ? child : child.children?.[1])
    if (deeper !== undefined) return deeper
  }
  return undefined
}

/** More wrong values than these are named when these are mended. */
const mostNamed = 4

/** The parser names its errors for programs: `PropertyNameExpected`. */
const wordsOf = (name: string): string =>
  name.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter}`).toLowerCase()

const keyText = (path: readonly PropertyKey[]): string => path.map(String).join('.')

function withoutKeys(value: unknown, path: readonly PropertyKey[], keys: readonly string[]): void {
  let target = value as Record<PropertyKey, unknown> | undefined
  for (const step of path) target = target?.[step] as Record<PropertyKey, unknown> | undefined
  if (target !== undefined) for (const key of keys) delete target[key]
}

/** The rules that unknown keys are errors in, and what else may stand there. */
const rules: Readonly<Record<string, readonly string[]>> = {
  sandboxApprovedEscalations: Object.keys(savedApprovalSchema.shape),
  sandboxSelection: Object.keys(selectionRuleSchema.shape),
  sandboxCredentials: Object.keys(credentialSchema.shape),
}

/** Keys that are levels or phases: one that is misspelt would leave the boundary that was meant as wide as it was. */
const names: Readonly<Record<string, readonly string[]>> = {
  sandboxLevels: boundaryLevels,
  sandboxBoundaries: phases,
  sandboxPhaseFiles: phases,
}

const isName = (path: readonly PropertyKey[]): boolean => path.length === 1 && String(path[0]) in names

/** What can stand where something of another type does. */
const ofType: Readonly<Record<string, string>> = {
  boolean: 'true or false',
  number: 'a number',
  string: 'a text in quotes',
  array: 'a list: [ … ]',
  object: 'an object: { … }',
}

function messageOf(issue: z.core.$ZodIssue): string {
  const { code, message, path } = issue
  const type = code === 'invalid_type' ? ofType[issue.expected] : undefined
  // One that the schema words itself says more.
  if (type !== undefined && message.startsWith('Invalid input')) return `${message}; allowed is ${type}`
  const known = isName(path) ? names : rules
  const allowed = code === 'unrecognized_keys' ? known[String(path[0])] : undefined
  return allowed === undefined ? message : `${message}; allowed are ${allowed.join(', ')}`
}

/** Reads a config's text into checked values. Unknown keys are warned about, wrong values are errors with their line. */
export function parseConfig(source: ConfigText): ConfigLayer {
  const { file } = source
  const text = source.text.replace(/^\uFEFF/, ' ')
  if (isTooDeep(text)) throw unreadable(file, `is nested deeper than ${deepestNesting} levels`, 'Flatten it.')
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true, disallowComments: false })
  const first = errors[0]
  if (first !== undefined && !(tree === undefined && text.trim() === '')) {
    const line = lineAt(text, first.offset)
    throw new OrangeryError(
      'config.syntax',
      `${file}:${line}: not JSON (${wordsOf(printParseErrorCode(first.error))})`,
      {
        kind: 'input',
        hint: 'Comments and trailing commas are fine; check the quotes and brackets on that line.',
        details: { file, line },
      },
    )
  }
  const repeated = repeatedKey(tree)
  if (repeated !== undefined) {
    const line = lineAt(text, repeated.offset)
    throw new OrangeryError(
      'config.syntax',
      `${file}:${line}: ${String(repeated.value)}: given a second time`,
      {
        kind: 'input',
        hint: 'Keep one of the two.',
        details: { file, line },
      },
    )
  }
  const lineOf = (path: readonly (string | number)[]): number => {
    const node = nearestNode(tree, path)
    // The line of the key, not of a value that may start further down.
    return node === undefined
      ? 1
      : lineAt(text, node.parent?.type === 'property' ? node.parent.offset : node.offset)
  }
  const value: unknown = tree === undefined ? {} : getNodeValue(tree)
  const warnings: ConfigNotice[] = []
  let parsed = configFileSchema.safeParse(value)
  if (!parsed.success) {
    for (const issue of parsed.error.issues) {
      // A misspelt "expires" that is dropped would make an approval last for ever: inside rules it is an error.
      const isRule = issue.path.some((step) => typeof step === 'number')
      if (issue.code !== 'unrecognized_keys' || isRule || isName(issue.path)) continue
      for (const key of issue.keys) {
        const path = [...(issue.path as (string | number)[]), key]
        warnings.push({ file, line: lineOf(path), key: keyText(path), message: 'unknown key, ignored' })
      }
      withoutKeys(value, issue.path, issue.keys)
    }
    warnings.sort((a, b) => a.line - b.line)
    if (warnings.length > 0) parsed = configFileSchema.safeParse(value)
  }
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => {
      const key = issue.code === 'unrecognized_keys' && isName(issue.path) ? issue.keys.slice(0, 1) : []
      const line = lineOf([...(issue.path as (string | number)[]), ...key])
      return { file, line, key: keyText(issue.path), message: messageOf(issue) }
    })
    const [one, ...others] = problems
    const more = others.length > 0 ? ` (and ${others.length} more)` : ''
    const also = others
      .slice(0, mostNamed)
      .map(({ line, key, message }) => `line ${line}: ${key}: ${message}. `)
      .join('')
    throw new OrangeryError(
      'config.invalid',
      `${file}:${one?.line ?? 1}: ${one?.key === '' ? '' : `${one?.key}: `}${one?.message ?? ''}${more}`,
      {
        kind: 'input',
        hint: `${also === '' ? '' : `Also ${also}`}The keys and their values are listed in docs/configuration.md.`,
        details: problems,
      },
    )
  }
  return { ...source, values: parsed.data, warnings, lineOf }
}
