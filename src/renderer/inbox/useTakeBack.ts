import { useAct } from '../client/queries.ts'
import { showToast } from '../design/toasts.ts'

/** Takes one host from a running agent, whoever allowed it, and leaves the rest. */
export function useTakeBack(id: string): (host: string) => void {
  const narrow = useAct('boundary.narrow', {
    onDone: (_state, { hosts }) =>
      showToast({ tone: 'good', title: `${hosts?.join(', ') ?? 'Hosts'} taken back` }),
  })
  return (host) => narrow.mutate({ id, hosts: [host], reason: 'in the window' })
}
