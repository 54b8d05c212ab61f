import { randomUUID } from 'node:crypto'
import type { Client } from '../shared/api.ts'
import type { DispatchDetail } from '../shared/dispatch.ts'

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

/** Numbers we compare with what happened; all others are only shown. */
const compared = new Set('max_turns max_commands level cpus memory_mb pids disk_mb timeout_s'.split(' '))

/** The same for people: numbers that would be shown as others are shown as they were written. */
export async function withExactNumbers(client: Client, detail: DispatchDetail): Promise<DispatchDetail> {
  const text = await specText(client, detail)
  if (text === null) return detail
  try {
    const spec = exactJson.parse(text, (key, value, { source }) =>
      typeof value !== 'number' || source === undefined || (compared.has(key) && Number.isFinite(value))
        ? value
        : exactJson.rawJSON(source),
    )
    return { ...detail, sandbox_spec: spec }
  } catch {
    return detail
  }
}
