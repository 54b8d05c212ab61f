import type { EventBody } from '../../../shared/events.ts'
import {
  closedLister,
  DeniedWrites,
  DenialReader,
  listLeftovers,
  watchProtected,
  writeReason,
  type SandboxPlan,
} from '../../sandbox/index.ts'
import { asWeWrote } from '../../policy/index.ts'
import type { OutputName } from './agentIo.ts'

const mostNamed = 20

/**
 * What tells of a boundary that was run into, or broken, where nothing says so for certain: words in the
 * output, and files of the host that are not as they were.
 */
export async function watchForSigns(
  plan: SandboxPlan,
  configDir: string,
  note: (event: EventBody) => void,
  /** What alone of the roots can be written at the moment; null: all. */
  scope: () => readonly string[] | null,
) {
  const { request } = plan
  const whyNotWritten = (path: string | null) =>
    writeReason(path, { roots: request.workspace.roots, scope: scope() })
  const now = () => new Date().toISOString()
  const readers: Readonly<Record<OutputName, DenialReader>> = {
    stdout: new DenialReader(whyNotWritten),
    stderr: new DenialReader(whyNotWritten),
  }
  const watch = await watchProtected(request)
  const writes = new DeniedWrites(whyNotWritten)
  const tell = (violations: ReturnType<DenialReader['read']>) => {
    for (const violation of violations) {
      if (violation.kind !== 'write_denied' || writes.isNewsPrinted(violation.detail))
        note({ type: 'Violated', violation })
    }
  }
  return {
    deniedWrite(path: string): void {
      const violation = writes.seen(path, now())
      if (violation !== null) note({ type: 'Violated', violation })
    },
    read(chunk: Uint8Array, name: OutputName): void {
      // At level 0 it is the host itself that refuses.
      if (request.level > 0) tell(readers[name].read(chunk, now()))
    },
    /** `own`: files that we put into the agent's home. */
    async end(own: Readonly<Record<string, string>>): Promise<void> {
      if (request.level > 0) for (const reader of Object.values(readers)) tell(reader.end(now()))
      const roots = request.workspace.roots.map(({ path }) => path)
      tell(await watch.check(now(), await asWeWrote(configDir, roots).catch(() => [])))
      const left = request.level === 0 ? [] : await listLeftovers(request.home, closedLister(plan), own)
      if (left.length === 0) return
      const named = left
        .slice(0, mostNamed)
        .map(({ path, bytes }) => `${path} (${Math.ceil(bytes / 1024)} KB)`)
      const more = left.length > mostNamed ? ` and ${left.length - mostNamed} more` : ''
      note({ type: 'Note', text: `left in the agent's home, never landed: ${named.join(', ')}${more}` })
    },
  }
}
