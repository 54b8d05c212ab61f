import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { findNodeAtLocation, parseTree, type ParseError } from 'jsonc-parser'
import type { z } from 'zod'
import { agentCardSchema, type AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { readRegularFile } from '../base/files.ts'
import { resourcePath } from '../base/resources.ts'

/** A file that is no card as it is, and the id it is for as far as one can tell. */
type BrokenCard = { readonly id: string; readonly error: OrangeryError }

type Read = { readonly card: AgentCard } | { readonly broken: BrokenCard }

type Folder = { readonly cards: readonly AgentCard[]; readonly broken: readonly BrokenCard[] }

const hint = 'Mend the file or move it away; no other agent needs it.'

async function readCard(path: string): Promise<Read> {
  const fail = (where: string, why: string, id: unknown): Read => {
    const error = new OrangeryError('agent.bad_card', `agent card ${path}${where}: ${why}`, {
      kind: 'input',
      hint,
    })
    return { broken: { id: typeof id === 'string' ? id : basename(path, '.json'), error } }
  }
  let text: string
  try {
    text = await readRegularFile(path)
  } catch (error) {
    return fail('', (error as Error).message, null)
  }
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { disallowComments: true })
  const nodeAt = (keys: readonly PropertyKey[]) =>
    tree && findNodeAtLocation(tree, keys as (string | number)[])
  const lineAt = (offset: number) => `:${text.slice(0, offset).split('\n').length}`
  const id: unknown = nodeAt(['id'])?.value
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return fail(lineAt(errors[0]?.offset ?? 0), `not JSON (${(error as Error).message})`, id)
  }
  const parsed = agentCardSchema.safeParse(value)
  if (parsed.success) return { card: parsed.data }
  const lines = ({ path: keys }: z.core.$ZodIssue) => lineAt(nodeAt(keys)?.offset ?? 0)
  const [first] = parsed.error.issues
  const words = parsed.error.issues.map(({ path: keys, message }) => [...keys, message].join(': '))
  return fail(first === undefined ? '' : lines(first), words.join('; '), id)
}

async function readFolder(folder: string): Promise<Folder> {
  const names = await readdir(folder).catch(() => [] as string[])
  const files = names.filter((name) => name.endsWith('.json')).sort()
  const read = await Promise.all(files.map((name) => readCard(join(folder, name))))
  return {
    cards: read.flatMap((one) => ('card' in one ? [one.card] : [])),
    broken: read.flatMap((one) => ('broken' in one ? [one.broken] : [])),
  }
}

async function readShipped(): Promise<readonly AgentCard[]> {
  const { cards, broken } = await readFolder(resourcePath('agents'))
  if (broken[0] !== undefined) throw broken[0].error
  return cards
}

let shipped: Promise<readonly AgentCard[]> | undefined

/** The cards that ship with us, which do not change while we run, then the user's own, which win by id. */
async function readCards(configDir: string): Promise<Folder> {
  shipped ??= readShipped()
  shipped.catch(() => (shipped = undefined))
  const [ours, own] = await Promise.all([shipped, readFolder(join(configDir, 'agents'))])
  const byId = new Map([...ours, ...own.cards].map((card) => [card.id, card]))
  // What the user wrote for an id is not replaced by what we or another file have for it.
  for (const { id } of own.broken) byId.delete(id)
  return { cards: [...byId.values()], broken: own.broken }
}

/** Those that can be used. */
export async function loadCards(configDir: string): Promise<AgentCard[]> {
  return [...(await readCards(configDir)).cards]
}

/** The card, and what is to be said of others that are broken: they stop only whoever uses them. */
export async function chooseCard(
  configDir: string,
  id: string,
): Promise<{ readonly card: AgentCard; readonly notes: readonly string[] }> {
  const { cards, broken } = await readCards(configDir)
  const own = broken.find((candidate) => candidate.id === id)
  if (own !== undefined) throw own.error
  const notes = broken.map(({ error }) => `${error.message}. ${hint}`)
  const card = cards.find((candidate) => candidate.id === id)
  if (card) return { card, notes }
  const known = `Known agents: ${cards.map((one) => one.id).join(', ')}.`
  throw new OrangeryError('agent.unknown', `agent "${id}": there is no such agent`, {
    kind: 'not_found',
    hint: [known, ...notes].join(' '),
  })
}

export const findCard = async (configDir: string, id: string): Promise<AgentCard> =>
  (await chooseCard(configDir, id)).card
