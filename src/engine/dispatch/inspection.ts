import type { EventBody } from '../../shared/events.ts'
import type { Violation } from '../../shared/effective.ts'
import type { SandboxRequest } from '../base/sandbox.ts'
import { DenialReader, listLeftovers, watchProtected } from '../sandbox/index.ts'

type Note = (event: EventBody) => void

/**
 * Looks at a run from outside: what its output tells of denials, whether protected files of the host are at the
 * end as they were at the beginning, and what was left in the agent's home.
 */
export class Inspection {
  readonly #denials = new DenialReader()
  readonly #home: string
  readonly #note: Note
  readonly #hostFiles: ReturnType<typeof watchProtected>

  /** The look at the host's files begins at once; `begun` says when it is done, beside the sandbox's start. */
  constructor(request: SandboxRequest, note: Note) {
    this.#home = request.home
    this.#note = note
    this.#hostFiles = watchProtected(request)
    this.#hostFiles.catch(() => {})
  }

  async begun(): Promise<void> {
    await this.#hostFiles
  }

  read(chunk: Uint8Array): void {
    this.#tell(this.#denials.read(chunk, now()))
  }

  async end(): Promise<void> {
    this.#tell(this.#denials.end(now()))
    this.#tell(await (await this.#hostFiles).check(now()))
    const left = await listLeftovers(this.#home)
    if (left.length > 0) this.#note({ type: 'Note', text: leftoverText(left) })
  }

  #tell(violations: readonly Violation[]): void {
    for (const violation of violations) this.#note({ type: 'Violated', violation })
  }
}

const now = () => new Date().toISOString()

function leftoverText(left: readonly { readonly path: string; readonly bytes: number }[]): string {
  const shown = left.slice(0, 20).map(({ path, bytes }) => `${path} (${Math.ceil(bytes / 1024)} kB)`)
  const more = left.length > shown.length ? ` and ${left.length - shown.length} more` : ''
  return `left in the agent's home, never landed: ${shown.join(', ')}${more}`
}
