import type { EventBody } from '../../shared/events.ts'
import {
  closedLister,
  DeniedWrites,
  DenialReader,
  listLeftovers,
  watchProtected,
  type SandboxPlan,
} from '../sandbox/index.ts'
import type { OutputName } from './agentIo.ts'

const mostNamed = 20

/**
 * What tells of a boundary that was run into, or broken, where nothing says so for certain: words in the
 * output, and files of the host that are not as they were.
 */
export async function watchForSigns(plan: SandboxPlan, note: (event: EventBody) => void) {
  const { request } = plan
  const now = () => new Date().toISOString()
  const readers: Readonly<Record<OutputName, DenialReader>> = {
    stdout: new DenialReader(),
    stderr: new DenialReader(),
  }
  const watch = await watchProtected(request)
  const writes = new DeniedWrites()
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
    async end(): Promise<void> {
      if (request.level > 0) for (const reader of Object.values(readers)) tell(reader.end(now()))
      tell(await watch.check(now()))
      const left = request.level === 0 ? [] : await listLeftovers(request.home, closedLister(plan))
      if (left.length === 0) return
      const named = left
        .slice(0, mostNamed)
        .map(({ path, bytes }) => `${path} (${Math.ceil(bytes / 1024)} KB)`)
      const more = left.length > mostNamed ? ` and ${left.length - mostNamed} more` : ''
      note({ type: 'Note', text: `left in the agent's home, never landed: ${named.join(', ')}${more}` })
    },
  }
}
