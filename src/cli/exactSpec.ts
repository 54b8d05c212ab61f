import { randomUUID } from 'node:crypto'
import type { Client } from '../shared/api.ts'
import type { DispatchDetail } from '../shared/dispatch.ts'
import { limitsSchema, sandboxSpecSchema } from '../shared/spec.ts'

/** ES2026, in Node 24: a number that is printed as it was written. */
type ExactJson = {
  rawJSON(text: string): unknown
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown
}
const exactJson = JSON as unknown as ExactJson

const specText = async (client: Client, { id }: DispatchDetail): Promise<string | null> =>
  (await client.call('dispatch.spec', { id })).text

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/**
 * What `dispatch status --json` prints: the spec stands in it as it was given. Read and written again, numbers
 * would come out as others (1e400 as null) and a field given twice once.
 */
export async function detailJson(client: Client, detail: DispatchDetail): Promise<string> {
  const text = await specText(client, detail)
  // What another program left that is no JSON stays the string it is.
  if (text === null || !isJson(text)) return JSON.stringify(detail, null, 2)
  const place = randomUUID()
  const around = JSON.stringify({ ...detail, sandbox_spec: place }, null, 2)
  return around.replace(JSON.stringify(place), () => text.trim())
}

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Fields we know are compared with what happened, as the numbers they are; all others are only shown. */
function exactWhereUnknown(plain: unknown, exact: unknown, known: Fields): unknown {
  if (!isFields(plain) || !isFields(exact)) return plain
  return Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [name, Object.hasOwn(known, name) ? value : exact[name]]),
  )
}

/** Null where it is nested too deeply to be walked. */
function parseExactly(text: string): unknown {
  try {
    return exactJson.parse(text, (_key, value, { source }) =>
      typeof value === 'number' && source !== undefined ? exactJson.rawJSON(source) : value,
    )
  } catch {
    return null
  }
}

/** The same for people: numbers that would be shown as others are shown as they were written. */
export async function withExactNumbers(client: Client, detail: DispatchDetail): Promise<DispatchDetail> {
  const text = await specText(client, detail)
  if (text === null || !isJson(text)) return detail
  const plain: unknown = JSON.parse(text)
  const exact = parseExactly(text)
  const spec = exactWhereUnknown(plain, exact, sandboxSpecSchema.shape)
  if (!isFields(spec) || !isFields(exact) || spec['limits'] === undefined)
    return { ...detail, sandbox_spec: spec }
  const limits = exactWhereUnknown(spec['limits'], exact['limits'], limitsSchema.shape)
  return { ...detail, sandbox_spec: { ...spec, limits } }
}
