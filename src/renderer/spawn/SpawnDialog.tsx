import { ChevronRight, Copy, Plus } from 'lucide-react'
import { useEffect, useState, type ReactNode } from 'react'
import { boundaryLevels } from '../../shared/boundary.ts'
import type { PreflightReport } from '../../shared/doctor.ts'
import { workspaceStrategies } from '../../shared/spec.ts'
import { useClient } from '../client/context.tsx'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Dialog } from '../design/Dialog.tsx'
import { Keys } from '../design/Keys.tsx'
import { Segments } from '../design/Segments.tsx'
import { showToast } from '../design/toasts.ts'
import { boundaryWords, levelWords } from '../dispatches/words.ts'
import { go } from '../shell/route.ts'
import { Plain } from '../text/Plain.tsx'
import { shellLine } from '../../shared/shellLine.ts'
import { commandOf } from './command.ts'
import { FolderField } from './FolderField.tsx'
import { emptyForm, fill, terminalLine, type SpawnForm } from './form.ts'
import { HostsField } from './HostsField.tsx'
import { LevelCards } from './LevelCards.tsx'
import { TrustNotice } from './TrustNotice.tsx'
import { WorktreeField } from './WorktreeField.tsx'
import { PreflightPanel } from './PreflightPanel.tsx'

const strategyWords = {
  overlay: 'Overlay',
  clone: 'Copy',
  worktree: 'Worktree',
  none: 'None: write for real',
} as const
const inputLook =
  'h-9 w-full rounded-lg bg-raised px-3 shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]'

function Field({ label, hint, children }: { label: string; hint?: ReactNode; children: ReactNode }) {
  return (
    <div className="space-y-1.5">
      <div className="flex items-baseline gap-2">
        <span className="font-medium">{label}</span>
        {hint !== undefined && (
          <span className="min-w-0 flex-1 truncate text-small text-ink-faint">{hint}</span>
        )}
      </div>
      {children}
    </div>
  )
}

/** Checks as one fills in, a moment after the last key, so that the answer is there before the button. */
function usePreflight(
  form: SpawnForm,
  open: boolean,
): { report: PreflightReport | undefined; busy: boolean } {
  const client = useClient()
  const [state, setState] = useState<{ report: PreflightReport | undefined; busy: boolean }>({
    report: undefined,
    busy: false,
  })
  const filled = fill(form)
  const asked = open && filled.ok ? JSON.stringify(filled.input) : null
  useEffect(() => {
    setState({ report: undefined, busy: asked !== null })
    if (asked === null) return undefined
    let current = true
    const timer = setTimeout(() => {
      client
        .call(
          'dispatch.preflight',
          JSON.parse(asked) as Parameters<typeof client.call<'dispatch.preflight'>>[1],
        )
        .then(
          (report) => current && setState({ report, busy: false }),
          (error: Error & { hint?: string }) =>
            current &&
            setState({
              report: {
                ok: false,
                checks: [{ name: 'request', ok: false, detail: error.message, fix: error.hint ?? null }],
              },
              busy: false,
            }),
        )
    }, 350)
    return () => {
      current = false
      clearTimeout(timer)
    }
  }, [asked, client])
  return state
}

export function SpawnDialog({
  open,
  startAt,
  onClose,
}: {
  open: boolean
  startAt: string | null
  onClose(): void
}) {
  const [form, setForm] = useState<SpawnForm>(emptyForm)
  const [more, setMore] = useState(false)
  const set = (part: Partial<SpawnForm>) => setForm((former) => ({ ...former, ...part }))
  const info = useAnswer('host.info', {})
  const doctor = useAnswer('host.doctor', {}, { enabled: open })
  const cards = useAnswer('agent.cards', {}, { enabled: open })
  const preflight = usePreflight(form, open)
  const spawn = useAct('dispatch.spawn', {
    onDone: ({ id }) => {
      onClose()
      setForm((former) => ({
        ...former,
        command: '',
        prompt: '',
        name: '',
        worktree: '',
        changeset: 'overlay',
      }))
      go({ page: 'dispatch', id, tab: 'output' })
    },
  })
  useEffect(() => {
    if (open && startAt !== null)
      setForm((former) => (former.roots[0] === '' ? { ...former, roots: [startAt] } : former))
  }, [open, startAt])

  const filled = fill(form)
  const blocked = !filled.ok
    ? filled.why
    : preflight.report?.ok === false
      ? 'A check failed; see above.'
      : null
  const start = () => {
    if (filled.ok && blocked === null && !spawn.isPending) spawn.mutate(filled.input)
  }
  const agents = (cards.data ?? []).filter((card) => card.id !== 'command')
  const words = commandOf(form.command)
  const line = terminalLine(form)

  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="New dispatch"
      description="It works on a view of your folder. What it writes waits for your review."
      width="max-w-4xl"
      footer={
        <>
          <div className="min-w-0 flex-1">
            <PreflightPanel report={preflight.report} busy={preflight.busy} />
          </div>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button
            look="primary"
            disabled={blocked !== null || spawn.isPending}
            {...(blocked === null ? {} : { tip: blocked })}
            onClick={start}
          >
            {form.level === 0 ? 'Start without sandbox' : 'Start'}
            <Keys>Ctrl ↵</Keys>
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
        <Field label="Folder" hint="Seen by the agent at its own path; the original stays as it is.">
          <div className="space-y-2">
            {form.roots.map((root, at) => (
              <FolderField
                // oxlint-disable-next-line react/no-array-index-key -- a folder is its place in the list
                key={at}
                value={root}
                home={info.data?.home ?? ''}
                label={at === 0 ? 'Folder' : `Folder ${at + 1}`}
                autoFocus={at === 0 && root === '' && startAt === null}
                onChange={(path) => set({ roots: form.roots.with(at, path) })}
                onRemove={at === 0 ? undefined : () => set({ roots: form.roots.toSpliced(at, 1) })}
              />
            ))}
            {form.roots[0] !== '' && (
              <Button
                look="quiet"
                size="small"
                icon={<Plus size={13} />}
                onClick={() => set({ roots: [...form.roots, ''] })}
              >
                Another folder
              </Button>
            )}
            {filled.ok && filled.input.roots.map((root) => <TrustNotice key={root} root={root} />)}
          </div>
        </Field>

        <Field
          label={form.agent === 'command' ? 'Command' : 'Agent'}
          hint={
            form.agent === 'command' && words[0] === 'sh' && words[1] === '-c' ? (
              <Plain>{`Runs ${shellLine(words)}`}</Plain>
            ) : undefined
          }
        >
          <div className="space-y-2">
            {agents.length > 0 && (
              <div className="flex flex-wrap gap-1.5" role="group" aria-label="Agent">
                {[{ id: 'command', name: 'A command' }, ...agents].map((card) => (
                  <button
                    key={card.id}
                    type="button"
                    aria-pressed={form.agent === card.id}
                    onClick={() => set({ agent: card.id })}
                    className="h-7 rounded-md px-2.5 text-small text-ink-soft shadow-[0_0_0_1px_var(--line-strong)] hover:bg-hover aria-pressed:bg-accent-wash aria-pressed:font-medium aria-pressed:text-accent-ink aria-pressed:shadow-[0_0_0_1.5px_var(--accent)]"
                  >
                    <Plain>{card.name}</Plain>
                  </button>
                ))}
              </div>
            )}
            {form.agent === 'command' ? (
              <input
                aria-label="Command"
                data-autofocus={form.roots[0] !== '' || startAt !== null ? '' : undefined}
                value={form.command}
                onChange={(event) => set({ command: event.target.value })}
                placeholder="npm test"
                spellCheck={false}
                autoComplete="off"
                className={`${inputLook} font-mono text-small`}
              />
            ) : (
              <textarea
                aria-label="Prompt"
                rows={3}
                value={form.prompt}
                onChange={(event) => set({ prompt: event.target.value })}
                placeholder="What should it do?"
                className={`${inputLook} h-auto resize-y py-2`}
              />
            )}
          </div>
        </Field>

        <Field label="Isolation" hint={levelWords[form.level].detail}>
          <LevelCards value={form.level} doctor={doctor.data} onChange={(level) => set({ level })} />
        </Field>

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
          {more && (
            <div className="mt-3 grid grid-cols-2 gap-x-6 gap-y-4 max-[52rem]:grid-cols-1">
              <Field label="Boundary" hint={boundaryWords[form.boundary].detail}>
                <Segments
                  label="Boundary"
                  value={form.boundary}
                  onChange={(boundary) => set({ boundary })}
                  segments={boundaryLevels.map((value) => ({ value, label: boundaryWords[value].label }))}
                />
              </Field>
              <Field label="Workspace">
                <Segments
                  label="Workspace"
                  value={form.changeset}
                  onChange={(changeset) => set({ changeset })}
                  segments={workspaceStrategies.map((value) => ({ value, label: strategyWords[value] }))}
                />
                {form.changeset === 'worktree' && (
                  <WorktreeField
                    folder={form.roots[0]?.trim().replace(/(?<=.)\/+$/, '') ?? ''}
                    value={form.worktree}
                    onChange={(worktree) => set({ worktree })}
                  />
                )}
              </Field>
              <Field label="Hosts it may reach" hint="By name, or what your tools are set to">
                <HostsField
                  value={form.hosts}
                  agent={form.agent}
                  roots={filled.ok ? filled.input.roots : []}
                  onChange={(hosts) => set({ hosts })}
                />
              </Field>
              <Field label="Name">
                <input
                  aria-label="Name"
                  value={form.name}
                  onChange={(event) => set({ name: event.target.value })}
                  placeholder="Taken from the command or prompt"
                  className={inputLook}
                />
              </Field>
              <div className="col-span-full grid grid-cols-3 gap-3">
                {(
                  [
                    ['Memory in MB', 'memoryMb', 'unlimited'],
                    ['CPUs', 'cpus', 'all'],
                    ['Time in seconds', 'timeoutS', 'no limit'],
                  ] as const
                ).map(([label, key, placeholder]) => (
                  <Field key={key} label={label}>
                    <input
                      aria-label={label}
                      inputMode="decimal"
                      value={form[key]}
                      onChange={(event) => set({ [key]: event.target.value })}
                      placeholder={placeholder}
                      className={`${inputLook} tabular`}
                    />
                  </Field>
                ))}
              </div>
            </div>
          )}
        </div>

        {filled.ok && (
          <div className="flex items-start gap-2 rounded-lg bg-sunken p-2 pl-3 shadow-[inset_0_0_0_1px_var(--line)]">
            <code
              className="selectable min-w-0 flex-1 py-0.5 font-mono text-micro text-ink-soft [overflow-wrap:anywhere]"
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
                void navigator.clipboard
                  .writeText(line)
                  .then(() => showToast({ tone: 'plain', title: 'Copied' }))
              }
            />
          </div>
        )}
      </form>
    </Dialog>
  )
}
