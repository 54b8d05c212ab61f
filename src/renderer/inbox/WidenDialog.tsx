import { useState } from 'react'
import { boundaryRank, type BoundaryLevel } from '../../shared/boundary.ts'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { presetOf } from '../../shared/hosts.ts'
import { useMutation } from '@tanstack/react-query'
import { useClient } from '../client/context.tsx'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { showError, showToast } from '../design/toasts.ts'
import { boundaryWords } from '../dispatches/words.ts'
import { shownOf } from './useAnswers.ts'
import { hostsOf } from '../spawn/form.ts'
import { inputLook } from '../spawn/Field.tsx'
import { HostsField } from '../spawn/HostsField.tsx'
import { troubleWithHosts } from '../spawn/troubles.ts'

type WidenDialogProps = {
  row: DispatchRow
  to: BoundaryLevel
  /** What was denied, say. */
  hosts?: string
  onClose(): void
}

/** Gives a running agent more. One request like any other, and the person's own yes to it: the record shows both. */
export function WidenDialog({ row, to, hosts: first = '', onClose }: WidenDialogProps) {
  const client = useClient()
  const [text, setText] = useState(first)
  const [why, setWhy] = useState('')
  const wrong = troubleWithHosts(hostsOf(text))
  const widen = useMutation({
    mutationFn: async () => {
      const asked = hostsOf(text)
      const presets = asked.filter((host) => presetOf(host) !== null)
      // What is granted are hosts: a preset may mean others tomorrow.
      const expanded =
        presets.length === 0
          ? []
          : await client.call('outputs.expand', {
              rules: presets,
              agent: row.agent,
              roots: row.roots,
            })
      const hosts = [
        ...asked.filter((host) => presetOf(host) === null),
        ...expanded.flatMap((expansion) => expansion.hosts),
      ]
      const reason = why.trim() === '' ? 'asked for in the window' : why.trim()
      const request = await client.call('boundary.request', { id: row.id, to, hosts, reason })
      if (request.status === 'open')
        await client.call('boundary.approve', {
          id: row.id,
          request: request.id,
          shown: shownOf(row),
        })
    },
    onSuccess: () => {
      showToast({ tone: 'good', title: `Widened to ${boundaryWords[to].label}` })
      onClose()
    },
    onError: showError,
  })
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Widen to ${boundaryWords[to].label}`}
      description={`${boundaryWords[to].detail} It holds at once, until the dispatch ends or you narrow it.`}
      footer={
        <DialogActions onCancel={onClose}>
          <Button look="primary" disabled={widen.isPending || wrong !== null} onClick={() => widen.mutate()}>
            {widen.isPending ? 'Widening…' : 'Widen'}
          </Button>
        </DialogActions>
      }
    >
      {boundaryRank(to) >= boundaryRank('network') && (
        <div className="mb-4 space-y-1.5">
          <span className="block font-medium">Hosts it may reach</span>
          <HostsField
            value={text}
            agent={row.agent}
            roots={row.roots}
            first
            trouble={wrong === null ? undefined : { text: wrong }}
            onChange={setText}
          />
        </div>
      )}
      <label className="block space-y-1.5">
        <span className="block font-medium">
          Why <span className="font-normal text-ink-faint">for the record</span>
        </span>
        <input
          data-autofocus
          value={why}
          onChange={(event) => setWhy(event.target.value)}
          placeholder="asked for in the window"
          maxLength={500}
          className={inputLook}
        />
      </label>
    </Dialog>
  )
}
