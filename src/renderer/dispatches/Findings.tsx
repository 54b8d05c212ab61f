import { Ban, TriangleAlert } from 'lucide-react'
import { useMemo, type ReactNode } from 'react'
import { compareSandbox } from '../../shared/compare.ts'
import type { DispatchDetail } from '../../shared/dispatch.ts'
import { sandboxEffectiveSchema } from '../../shared/effective.ts'
import { Badge, type Tone } from '../design/Badge.tsx'
import { go } from '../shell/route.ts'
import { showAll } from '../text/visible.ts'

/** What is on record against it, in sentences. */
export function findingsOf(detail: DispatchDetail): {
  readonly beyond: readonly string[]
  readonly denied: readonly string[]
} {
  const network = sandboxEffectiveSchema.shape.network.safeParse(
    (detail.sandbox_effective as { network?: unknown } | null)?.network,
  )
  return {
    beyond: compareSandbox(detail).flatMap(({ violation }) => violation ?? []),
    denied: [...new Set(network.data?.denied.map(({ host }) => host))],
  }
}

/** What a reviewer should know before letting anything in, and the way to all of it. */
export function Findings({ detail }: { detail: DispatchDetail }) {
  const { beyond, denied } = useMemo(() => findingsOf(detail), [detail])
  const finding = (tone: Tone, icon: ReactNode, words: string, all: readonly string[]) => (
    <button
      type="button"
      title={all.map(showAll).join('\n')}
      onClick={() => go({ page: 'dispatch', id: detail.id, tab: 'record' })}
      className="inline-flex shrink-0 rounded-md hover:brightness-95"
    >
      <Badge tone={tone} icon={icon}>
        {words}
      </Badge>
    </button>
  )
  return (
    <>
      {beyond.length > 0 &&
        finding(
          'bad',
          <TriangleAlert size={12} />,
          beyond.length === 1 ? '1 violation' : `${beyond.length} violations`,
          beyond,
        )}
      {denied.length > 0 &&
        finding(
          'warn',
          <Ban size={12} />,
          denied.length === 1 ? '1 host denied' : `${denied.length} hosts denied`,
          denied,
        )}
    </>
  )
}
