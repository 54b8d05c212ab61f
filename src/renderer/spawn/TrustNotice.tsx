import { FileWarning } from 'lucide-react'
import { useState } from 'react'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { Plain } from '../text/Plain.tsx'
import { lineDifference } from '../../shared/lineDifference.ts'

/**
 * A repository's own config only narrows until its user trusts it, text by text. Here is where one does, with the
 * difference to what was trusted before.
 */
export function TrustNotice({ root }: { root: string }) {
  const [open, setOpen] = useState(false)
  const question = useAnswer('config.question', { root }, { fresh: true })
  const trust = useAct('config.trust', {
    onDone: () => {
      setOpen(false)
      void question.refetch()
    },
  })
  const asked = question.data
  if (question.error !== null)
    return (
      <p role="alert" className="selectable text-small [overflow-wrap:anywhere] text-bad">
        Whether you trust this project's config cannot be told: <Plain>{question.error.message}</Plain>
      </p>
    )
  if (asked === undefined || (asked.trust !== 'untrusted' && asked.trust !== 'changed')) return null
  const lines = lineDifference(asked.before, asked.now)
  const colours = {
    added: 'bg-good-wash text-good',
    removed: 'bg-bad-wash text-bad',
    same: 'text-ink-soft',
  } as const
  const signs = { added: '+', removed: '−', same: ' ' } as const
  return (
    <>
      <div className="flex items-center gap-2.5 rounded-lg bg-warn-wash px-3 py-2 text-small text-warn">
        <FileWarning size={15} className="shrink-0" />
        <span className="min-w-0 flex-1">
          {asked.trust === 'changed'
            ? 'The config of this project has changed since you trusted it.'
            : 'This project brings a config you have not trusted.'}{' '}
          Until then it can only narrow what is allowed.
        </span>
        <Button size="small" onClick={() => setOpen(true)}>
          Look at it
        </Button>
      </div>
      <Dialog
        open={open}
        onClose={() => setOpen(false)}
        title="Trust this project's config"
        description={
          <>
            From then on it may widen what agents get in this project, up to your own limits.{' '}
            <span className="block font-mono text-small [overflow-wrap:anywhere]">
              <Plain>{asked.file}</Plain>
            </span>
          </>
        }
        width="max-w-2xl"
        footer={
          <DialogActions cancel="Not now" onCancel={() => setOpen(false)}>
            <Button
              look="primary"
              disabled={asked.sha256 === null || trust.isPending}
              onClick={() => trust.mutate({ root, sha256: asked.sha256 })}
            >
              Trust exactly this text
            </Button>
          </DialogActions>
        }
      >
        {/* Wrapped: what lies beyond an edge would be trusted unread. (attack: one long line) */}
        <pre className="selectable rounded-lg bg-sunken py-2 font-mono text-small shadow-[inset_0_0_0_1px_var(--line)]">
          {lines.map(({ key, kind, text }) => (
            <div key={key} className={`flex gap-2 px-3 ${colours[kind]}`}>
              <span className="shrink-0 select-none">{signs[kind]}</span>
              <span className="min-w-0 [overflow-wrap:anywhere] whitespace-pre-wrap">
                <Plain>{text}</Plain>
              </span>
            </div>
          ))}
        </pre>
      </Dialog>
    </>
  )
}
