import type { Need } from '../../base/escalation.ts'
import type { AcpToolCall } from './messages.ts'

const writingKinds = new Set(['edit', 'delete', 'move'])
const pathKeys = ['path', 'file_path', 'abs_path', 'filePath', 'source', 'destination']
const mostNamed = 20

const fieldsOf = (input: unknown): Record<string, unknown> =>
  typeof input === 'object' && input !== null ? (input as Record<string, unknown>) : {}
const texts = (values: readonly unknown[]): string[] => values.filter((value) => typeof value === 'string')

function pathsOf({ locations, content, rawInput }: AcpToolCall): string[] {
  const fields = fieldsOf(rawInput)
  const named = [
    ...(locations ?? []).map(({ path }) => path),
    ...texts((content ?? []).map(({ path }) => path)),
    ...texts(pathKeys.map((key) => fields[key])),
  ]
  return [...new Set(named)].slice(0, mostNamed)
}

const usualPorts: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' }

function hostOf(text: string): string[] {
  const url = URL.canParse(text) ? new URL(text) : null
  const port = url?.port || usualPorts[url?.protocol ?? '']
  return url === null || port === undefined || url.hostname === '' ? [] : [`${url.hostname}:${port}`]
}

function hostsOf({ rawInput }: AcpToolCall): string[] {
  const { url, urls } = fieldsOf(rawInput)
  return [...new Set(texts([url, ...(Array.isArray(urls) ? urls : [])]).flatMap(hostOf))].slice(0, mostNamed)
}

/**
 * What a call that an agent asks leave for would need of the boundary. What it does not name needs nothing here:
 * the sandbox holds whatever the agent says, and what it is refused is seen from outside.
 */
export function needOf(call: AcpToolCall): Need {
  if (writingKinds.has(call.kind ?? '')) return { kind: 'write', paths: pathsOf(call) }
  const hosts = call.kind === 'fetch' ? hostsOf(call) : []
  return hosts.length > 0 ? { kind: 'reach', hosts } : { kind: 'nothing' }
}
