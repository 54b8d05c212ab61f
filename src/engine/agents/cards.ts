import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { findNodeAtLocation, parseTree, type ParseError } from 'jsonc-parser'
import { agentCardSchema, cardAuthSchema, cardRequirementsSchema, type AgentCard } from '../../shared/card.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { unknownFields } from '../../shared/misspelt.ts'
import { readRegularFile } from '../base/files.ts'
import { resourcePath } from '../base/resources.ts'

/** A file that is no card as it is, and the id it is for as far as one can tell. */
type BrokenCard = { readonly id: string; readonly error: OrangeryError }

type Read = { readonly card: AgentCard; readonly notes: readonly string[] } | { readonly broken: BrokenCard }

type Folder = {
  readonly cards: readonly AgentCard[]
  readonly broken: readonly BrokenCard[]
  /** What is to be said of a card that can be used, by its id. */
  readonly notes: ReadonlyMap<string, readonly string[]>
}

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
  const lines = (keys: readonly PropertyKey[]) => lineAt(nodeAt(keys)?.offset ?? 0)
  const id: unknown = nodeAt(['id'])?.value
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return fail(lineAt(errors[0]?.offset ?? 0), `not JSON (${(error as Error).message})`, id)
  }
  const parsed = agentCardSchema.safeParse(value)
  if (parsed.success) {
    const notes = unknownKeys(parsed.data).map(({ keys, words }) => `${path}${lines(keys)}: ${words}`)
    return { card: parsed.data, notes }
  }
  const [first] = parsed.error.issues
  const words = parsed.error.issues.map(({ path: keys, message }) => [...keys, message].join(': '))
  return fail(first === undefined ? '' : lines(first.path), words.join('; '), id)
}

/** Keys that nothing acts on: a `rootModes` in the wrong place would leave a root as open as it was. */
function unknownKeys(card: AgentCard): { keys: string[]; words: string }[] {
  const places = [
    { prefix: '', value: card, shape: agentCardSchema.shape },
    { prefix: 'sandboxRequirements.', value: card.sandboxRequirements, shape: cardRequirementsSchema.shape },
    { prefix: 'auth.', value: card.auth, shape: cardAuthSchema.shape },
  ]
  return unknownFields(places).map(({ prefix, name, meant }) => ({
    keys: [...prefix.split('.').filter(Boolean), name],
    words: `${prefix}${name}: unknown key, ignored${meant === undefined ? '' : `: is ${meant} meant?`}`,
  }))
}

async function readFolder(folder: string): Promise<Folder> {
  const names = await readdir(folder).catch(() => [] as string[])
  const files = names.filter((name) => name.endsWith('.json')).sort()
  const read = await Promise.all(files.map((name) => readCard(join(folder, name))))
  return {
    cards: read.flatMap((one) => ('card' in one ? [one.card] : [])),
    broken: read.flatMap((one) => ('broken' in one ? [one.broken] : [])),
    notes: new Map(read.flatMap((one) => ('card' in one ? [[one.card.id, one.notes]] : []))),
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
  return { cards: [...byId.values()], broken: own.broken, notes: own.notes }
}

/** Those that can be used. */
export async function loadCards(configDir: string): Promise<AgentCard[]> {
  return [...(await readCards(configDir)).cards]
}

/** The card, what is to be said of it, and of others that are broken: they stop only whoever uses them. */
export async function chooseCard(
  configDir: string,
  id: string,
): Promise<{ readonly card: AgentCard; readonly notes: readonly string[] }> {
  const { cards, broken, notes: ofCards } = await readCards(configDir)
  const own = broken.find((candidate) => candidate.id === id)
  if (own !== undefined) throw own.error
  const notes = broken.map(({ error }) => `${error.message}. ${hint}`)
  const card = cards.find((candidate) => candidate.id === id)
  if (card) return { card, notes: [...(ofCards.get(id) ?? []), ...notes] }
  const known = `Known agents: ${cards.map((one) => one.id).join(', ')}.`
  throw new OrangeryError('agent.unknown', `agent "${id}": there is no such agent`, {
    kind: 'not_found',
    hint: [known, ...notes].join(' '),
  })
}

export const findCard = async (configDir: string, id: string): Promise<AgentCard> =>
  (await chooseCard(configDir, id)).card
