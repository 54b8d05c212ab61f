import { useState } from 'react'
import { useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog, DialogActions } from '../design/Dialog.tsx'
import { Reading } from '../design/Section.tsx'
import { Plain } from '../text/Plain.tsx'
import type { placeOf } from './model.ts'
import { decodeText, encodeText, hasMarks } from './conflictText.ts'

type ConflictEditorProps = {
  id: string
  place: ReturnType<typeof placeOf>
  busy: boolean
  onSave(content_b64: string): void
  onClose(): void
}

/** The file as it should land, written by the person: begun with both sides, marked where they contradict. */
export function ConflictEditor({ id, place, busy, onSave, onClose }: ConflictEditorProps) {
  const texts = useAnswer('changeset.conflict_texts', { id, ...place }, { fresh: true })
  const [draft, setDraft] = useState<string | null>(null)
  const sides =
    texts.data === undefined
      ? null
      : {
          both: decodeText(texts.data.both_b64),
          mine: decodeText(texts.data.mine_b64),
          theirs: decodeText(texts.data.theirs_b64),
        }
  const text = draft ?? sides?.both ?? null
  const marked = text !== null && hasMarks(text)
  const unreadable = sides !== null && sides.both === null
  return (
    <Dialog
      open
      onClose={onClose}
      title="Edit what lands"
      description={<Plain>{place.path}</Plain>}
      width="max-w-3xl"
      footer={
        <DialogActions
          note={marked ? 'Marks of both sides are still in it.' : undefined}
          noteTone="warn"
          onCancel={onClose}
        >
          <Button
            look="primary"
            disabled={text === null || marked || busy}
            onClick={() => text !== null && onSave(encodeText(text))}
          >
            Use this text
          </Button>
        </DialogActions>
      }
    >
      {texts.error !== null && (
        <p className="selectable text-bad">
          <Plain>{texts.error.message}</Plain>
        </p>
      )}
      {sides === null && texts.error === null && <Reading what="Reading both sides…" />}
      {unreadable && <p className="text-bad">This is no UTF-8 text. Take one of the two sides.</p>}
      {sides !== null && text !== null && (
        <div className="space-y-2">
          <div className="flex flex-wrap gap-1.5" role="group" aria-label="Begin with">
            {(
              [
                ['both', 'Both, marked'],
                ['mine', 'Mine'],
                ['theirs', "The agent's"],
              ] as const
            ).map(([side, label]) => (
              <Button
                key={side}
                size="small"
                disabled={sides[side] === null}
                aria-pressed={text === sides[side]}
                className="aria-pressed:bg-accent-wash aria-pressed:text-accent-ink"
                onClick={() => setDraft(sides[side])}
              >
                {label}
              </Button>
            ))}
          </div>
          <textarea
            aria-label="Text that lands"
            // oxlint-disable-next-line jsx-a11y/no-autofocus -- it is what the dialog is for, and comes when both sides are read
            autoFocus
            value={text}
            onChange={(event) => setDraft(event.target.value)}
            spellCheck={false}
            rows={Math.min(24, Math.max(8, text.split('\n').length))}
            className="w-full resize-y rounded-lg bg-raised px-3 py-2 font-mono text-small leading-5 whitespace-pre shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]"
          />
        </div>
      )}
    </Dialog>
  )
}
