import { Ban, Globe, Unplug } from 'lucide-react'
import { useMemo, useState } from 'react'
import { isTerminal, type DispatchDetail } from '../../shared/dispatch.ts'
import type { LoggedEvent } from '../../shared/events.ts'
import { Button } from '../design/Button.tsx'
import { WidenDialog } from '../inbox/WidenDialog.tsx'
import { HostsText } from '../text/HostsText.tsx'
import { Plain } from '../text/Plain.tsx'
import { bytes } from '../text/time.ts'
import { useTakeBack } from '../inbox/useTakeBack.ts'
import { canBeAllowed, canBeTaken, networkOf } from './network.ts'

const times = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

/** Which hosts it tried. One that was denied to a running agent is allowed from here, one it reaches is taken back. */
export function Network({ detail, events }: { detail: DispatchDetail; events: readonly LoggedEvent[] }) {
  const [allowing, setAllowing] = useState<string | null>(null)
  const takeBack = useTakeBack(detail.id)
  const hosts = useMemo(() => networkOf(events, detail.sandbox_effective), [events, detail.sandbox_effective])
  if (hosts.length === 0) return null
  const running = !isTerminal(detail.status)
  return (
    <section aria-label="Network">
      <h2 className="mb-2 text-large font-semibold">Network</h2>
      <ul className="selectable divide-y divide-line overflow-hidden rounded-lg shadow-[0_0_0_1px_var(--line)]">
        {hosts.map((reached) => {
          const { host, allowed, denied, unreachable = 0, why, bytes: sent } = reached
          const isSilent = allowed === 0 && unreachable > 0
          return (
            <li key={host} className="flex min-h-9 flex-wrap items-center gap-x-2 px-3 py-1.5">
              {denied > 0 ? (
                <Ban size={13} className="shrink-0 text-bad" aria-label="denied" />
              ) : isSilent ? (
                <Unplug size={13} className="shrink-0 text-warn" aria-label="not answered" />
              ) : (
                <Globe size={13} className="shrink-0 text-ink-faint" aria-label="reached" />
              )}
              <span className="min-w-0 font-mono text-small [overflow-wrap:anywhere]">
                <HostsText>{host}</HostsText>
              </span>
              <span className="min-w-0 flex-1 text-small [overflow-wrap:anywhere] text-ink-faint">
                {why !== null && <Plain>{why}</Plain>}
              </span>
              <span className="tabular text-small text-ink-soft">
                {[
                  allowed > 0 ? times(allowed, 'connection') : '',
                  sent === null || isSilent ? '' : bytes(sent),
                  unreachable > 0 ? `${unreachable} not answered` : '',
                  denied > 0 ? `${denied} denied` : '',
                ]
                  .filter(Boolean)
                  .join(', ')}
              </span>
              {running && canBeAllowed(reached) && (
                <Button size="small" aria-label={`Allow ${host}`} onClick={() => setAllowing(host)}>
                  Allow…
                </Button>
              )}
              {running && canBeTaken(reached) && (
                <Button size="small" aria-label={`Take back ${host}`} onClick={() => takeBack(host)}>
                  Take back
                </Button>
              )}
            </li>
          )
        })}
      </ul>
      {allowing !== null && (
        <WidenDialog
          row={detail}
          to={detail.boundary === 'full' ? 'full' : 'network'}
          hosts={allowing}
          onClose={() => setAllowing(null)}
        />
      )}
    </section>
  )
}
