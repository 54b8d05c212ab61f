import { ChevronRight, Copy, Plus } from 'lucide-react'
import { useEffect, useId, useState } from 'react'
import type { DispatchRow } from '../../shared/dispatch.ts'
import { useConnectionState } from '../client/context.tsx'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog } from '../design/Dialog.tsx'
import { Keys, sendKeys } from '../design/Keys.tsx'
import { showToast } from '../design/toasts.ts'
import { levelWords } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { recentCommands } from './again.ts'
import { checkSentence, fieldOfCheck } from './failedChecks.ts'
import { Field, FieldMessage, type FieldTrouble } from './Field.tsx'
import { FolderField } from './FolderField.tsx'
import {
  emptyForm,
  fill,
  lookAt,
  modeAt,
  modesWith,
  rootsOf,
  terminalLine,
  withoutRoot,
  type SpawnField,
  type SpawnForm,
} from './form.ts'
import { LevelCards } from './LevelCards.tsx'
import { MoreFields } from './MoreFields.tsx'
import { PreflightPanel } from './PreflightPanel.tsx'
import { PlanPreview } from './PlanPreview.tsx'
import { TaskField } from './TaskField.tsx'
import { TrustNotice } from './TrustNotice.tsx'
import { usePreflight } from './usePreflight.ts'

const advanced = ['name', 'changeset', 'boundary', 'hosts', 'memoryMb', 'cpus', 'timeoutS'] as const
const isAdvanced = (form: SpawnForm) => advanced.some((field) => form[field] !== emptyForm[field])

function CommandLine({ line }: { line: string }) {
  return (
    <div className="flex items-start gap-2 rounded-lg bg-sunken p-2 pl-3 shadow-[inset_0_0_0_1px_var(--line)]">
      <code
        className="selectable min-w-0 flex-1 py-0.5 font-mono text-micro [overflow-wrap:anywhere] text-ink-soft"
        aria-label="The same in a terminal"
      >
        <Plain>{line}</Plain>
      </code>
      <Button
        look="quiet"
        size="small"
        icon={<Copy size={13} />}
        tip="Copy the same for a terminal"
        aria-label="Copy the command line"
        onClick={() =>
          void navigator.clipboard.writeText(line).then(() => showToast({ tone: 'plain', title: 'Copied' }))
        }
      />
    </div>
  )
}

const isUnnamed = ({ roots, invocation }: SpawnForm): boolean =>
  invocation === '' && roots.length === 1 && roots[0] === ''

type SpawnDialogProps = {
  /** What the form begins with. */
  first: SpawnForm
  /** The usual folder; empty until the dispatches are known, which may be after the form is open. */
  startAt: string
  rows: readonly DispatchRow[]
  /** With what was filled in, to be there when it is opened again; null once it has started. */
  onClose(form: SpawnForm | null): void
}

const notConnected = 'Not connected. What you filled in stays here until the connection is back.'

export function SpawnDialog({ first, startAt, rows, onClose }: SpawnDialogProps) {
  const base = useId()
  const [form, setForm] = useState(first)
  const [more, setMore] = useState(() => isAdvanced(first))
  const set = (part: Partial<SpawnForm>) => setForm((former) => ({ ...former, ...part }))
  useEffect(() => {
    if (startAt !== '') setForm((former) => (isUnnamed(former) ? { ...former, roots: [startAt] } : former))
  }, [startAt])
  const info = useAnswer('host.info', {})
  const doctor = useAnswer('host.doctor', {})
  const cards = useAnswer('agent.cards', {})
  const filled = fill(form)
  const isLost = useConnectionState().status === 'lost'
  const preflight = usePreflight(filled.ok && !isLost ? filled.input : null)
  const spawn = useAct('dispatch.spawn', {
    onDone: ({ id, notes = [] }) => {
      onClose(null)
      for (const note of notes) showToast({ tone: 'plain', title: note })
      go({ page: 'dispatch', id, tab: 'output' })
    },
  })

  const failed = preflight.report?.checks.filter((check) => !check.ok) ?? []
  const troubles = filled.ok ? {} : filled.troubles
  const troubleWith = (field: SpawnField): FieldTrouble | undefined => {
    const text = troubles[field]
    if (text !== undefined) return { text }
    const check = failed.find((each) => fieldOfCheck(each) === field)
    return check === undefined ? undefined : { text: checkSentence(check), fix: check.fix }
  }
  const others = failed.filter((check) => fieldOfCheck(check) === null)
  const atFields = Object.fromEntries(
    failed.flatMap((check) => {
      const field = fieldOfCheck(check)
      return field === null ? [] : [[field, check.detail] as const]
    }),
  )
  const blocked = isLost
    ? notConnected
    : !filled.ok
      ? filled.why
      : failed.length > 0
        ? 'A check failed; see above.'
        : null
  const start = () => {
    if (filled.ok && blocked === null && !spawn.isPending) spawn.mutate(filled.input)
  }
  const folderTrouble = troubleWith('folder')
  const known = form.roots[0] !== ''
  const kept = Object.keys(form.extra)

  return (
    <Dialog
      open
      onClose={() => onClose(form)}
      title="New dispatch"
      description="It works on a view of your folder. What it writes waits for your review."
      width="max-w-4xl"
      footer={
        <>
          <div className="min-w-0 flex-1">
            <PreflightPanel
              missing={isLost ? notConnected : filled.ok ? lookAt(atFields) : filled.why}
              checked={preflight.report?.checks.length ?? 0}
              report={
                preflight.report === undefined ? undefined : { ok: preflight.report.ok, checks: others }
              }
              busy={preflight.busy}
            />
          </div>
          <Button look="quiet" onClick={() => onClose(form)}>
            Cancel
          </Button>
          <Button
            look={form.level === 0 ? 'danger' : 'primary'}
            disabled={blocked !== null || spawn.isPending}
            {...(blocked === null ? {} : { tip: blocked })}
            onClick={start}
          >
            {form.level === 0 ? 'Start without sandbox' : 'Start'}
            <Keys>{sendKeys}</Keys>
          </Button>
        </>
      }
    >
      <form
        className="space-y-5"
        onSubmit={(event) => {
          event.preventDefault()
          start()
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) start()
        }}
      >
        {form.invocation !== '' && (
          <Field label="Sandbox" hint="Made before; it works on its own branch.">
            <p className="selectable rounded-lg bg-sunken px-3 py-2 font-mono text-small shadow-[inset_0_0_0_1px_var(--line)]">
              <Plain>{form.invocation}</Plain>
            </p>
          </Field>
        )}
        {form.invocation === '' && (
          <Field label="Folder" hint="Seen by the agent at its own path; the original stays as it is.">
            <div className="space-y-2">
              {form.roots.map((root, at) => (
                <FolderField
                  // oxlint-disable-next-line react/no-array-index-key -- a folder is its place in the list
                  key={at}
                  value={root}
                  home={info.data?.home ?? ''}
                  label={at === 0 ? 'Folder' : `Folder ${at + 1}`}
                  autoFocus={at === 0 && first.roots[0] === ''}
                  trouble={folderTrouble}
                  messageId={`${base}-folder`}
                  mode={modeAt(form, at)}
                  onMode={(mode) => set({ rootModes: modesWith(form, at, mode) })}
                  onChange={(path) => set({ roots: form.roots.with(at, path) })}
                  onRemove={at === 0 ? undefined : () => set(withoutRoot(form, at))}
                />
              ))}
              <FieldMessage id={`${base}-folder`} trouble={folderTrouble} />
              {known && (
                <Button
                  look="quiet"
                  size="small"
                  icon={<Plus size={13} />}
                  onClick={() => set({ roots: [...form.roots, ''] })}
                  className="-ml-2"
                >
                  Another folder
                </Button>
              )}
              {filled.ok && filled.input.roots.map((root) => <TrustNotice key={root} root={root} />)}
            </div>
          </Field>
        )}

        <TaskField
          form={form}
          agents={(cards.data ?? []).filter((card) => card.id !== 'command')}
          recent={recentCommands(rows, rootsOf(form)[0] ?? '')}
          focus={first.roots[0] !== ''}
          onChange={set}
        />

        <Field label="Isolation" hint={levelWords[form.level].detail}>
          <LevelCards
            value={form.level}
            doctor={doctor.data}
            trouble={troubleWith('level')}
            messageId={`${base}-level`}
            onChange={(level) => set({ level })}
          />
          <FieldMessage id={`${base}-level`} trouble={troubleWith('level')} />
        </Field>

        {kept.length > 0 && (
          <p className="text-small text-ink-soft" role="note">
            As before, besides what is set here:{' '}
            <span className="font-mono text-micro">
              <Plain>{kept.join(', ')}</Plain>
            </span>
          </p>
        )}

        <div>
          <button
            type="button"
            aria-expanded={more}
            onClick={() => setMore(!more)}
            className="flex items-center gap-1 rounded-sm text-small text-ink-soft hover:text-ink"
          >
            <ChevronRight size={14} className={`transition-transform ${more ? 'rotate-90' : ''}`} />
            More: boundary, workspace, network, limits, name
          </button>
          {more && <MoreFields form={form} troubles={troubles} onChange={set} />}
        </div>

        {filled.ok && <CommandLine line={terminalLine(form)} />}
        {preflight.report?.plan !== undefined && <PlanPreview text={preflight.report.plan} />}
      </form>
    </Dialog>
  )
}
