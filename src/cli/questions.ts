import type { Client } from '../shared/api.ts'
import { wildcardsInWords } from '../shared/opens.ts'
import { showAll } from '../shared/visible.ts'

type Question = { readonly request: string; readonly to: string; readonly hosts: readonly string[] }

/** What is answered sooner, by a saved yes or because the command went on, is nobody's business. */
const patienceMs = 1_000
const mostTold = 5

/** Who runs a command in front of him is told what it waits for, and how to answer from another terminal. */
export class Questions implements Disposable {
  readonly #client: Client
  readonly #timers = new Set<NodeJS.Timeout>()
  #told = 0

  constructor(client: Client) {
    this.#client = client
  }

  ask(id: string, question: Question): void {
    const timer = setTimeout(() => void this.#tell(id, question).catch(() => {}), patienceMs)
    timer.unref()
    this.#timers.add(timer)
  }

  async #tell(id: string, { request, to, hosts }: Question): Promise<void> {
    const { requests } = await this.#client.call('boundary.show', { id })
    const isOpen = requests.some((known) => known.id === request && known.status === 'open')
    if (!isOpen || this.#told >= mostTold) return
    this.#told += 1
    const covered = wildcardsInWords(hosts).map((words) => `(${words})`)
    const wish = [to, ...hosts.map(showAll), ...covered].join(' ')
    process.stderr.write(`orangery: ${id}: asks for ${wish}, and a person may answer\n`)
    process.stderr.write(`  hint: orangery boundary approve ${id} --request ${request}\n`)
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers) clearTimeout(timer)
  }
}
