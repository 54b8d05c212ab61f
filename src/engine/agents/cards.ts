import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { agentCardSchema, type AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { resourcePath } from '../base/resources.ts'

async function readCard(path: string): Promise<AgentCard> {
  const fail = (why: string) =>
    new OrangeryError('agent.bad_card', `agent card ${path}: ${why}`, {
      kind: 'input',
      hint: 'Mend the file or move it away; the fields are described in resources/schemas.',
    })
  let value: unknown
  try {
    value = JSON.parse(await readFile(path, 'utf8'))
  } catch (error) {
    throw fail((error as Error).message)
  }
  const parsed = agentCardSchema.safeParse(value)
  if (!parsed.success) throw fail(z.prettifyError(parsed.error).replaceAll('\n', ' '))
  return parsed.data
}

async function readFolder(folder: string): Promise<AgentCard[]> {
  const names = await readdir(folder).catch(() => [] as string[])
  const files = names.filter((name) => name.endsWith('.json')).sort()
  return Promise.all(files.map((name) => readCard(join(folder, name))))
}

let shipped: Promise<AgentCard[]> | undefined

/** The cards that ship with us, which do not change while we run, then the user's own, which win by id. */
export async function loadCards(configDir: string): Promise<AgentCard[]> {
  shipped ??= readFolder(resourcePath('agents'))
  shipped.catch(() => (shipped = undefined))
  const folders = await Promise.all([shipped, readFolder(join(configDir, 'agents'))])
  return [...new Map(folders.flat().map((card) => [card.id, card])).values()]
}

export async function findCard(configDir: string, id: string): Promise<AgentCard> {
  const cards = await loadCards(configDir)
  const card = cards.find((candidate) => candidate.id === id)
  if (card) return card
  throw new OrangeryError('agent.unknown', `agent "${id}": there is no such agent`, {
    kind: 'not_found',
    hint: `Known agents: ${cards.map((known) => known.id).join(', ')}.`,
  })
}
