import { Folder, FolderOpen, X } from 'lucide-react'
import { useDeferredValue, useId, useState } from 'react'
import { rootModes, type RootMode } from '../../shared/spec.ts'
import { useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { Plain } from '../text/Plain.tsx'
import { markedBy, type FieldTrouble } from './Field.tsx'

type FolderFieldProps = {
  value: string
  home: string
  label: string
  autoFocus?: boolean
  trouble?: FieldTrouble | undefined
  /** Where the trouble is said. */
  messageId: string
  /** What it may do there; left out where it is the only folder. */
  mode?: RootMode | undefined
  onMode(mode: RootMode): void
  onChange(path: string): void
  onRemove?: (() => void) | undefined
}

const modeWords = { rw: 'May write', ro: 'Only reads', hidden: 'Not seen' } as const

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/') + 1)

/** A path with completion by the host; a native dialog where there is one. */
export function FolderField({
  value,
  home,
  label,
  autoFocus = false,
  trouble,
  messageId,
  mode,
  onMode,
  onChange,
  onRemove,
}: FolderFieldProps) {
  const listId = useId()
  const [focused, setFocused] = useState(false)
  const [marked, setMarked] = useState(0)
  const asked = useDeferredValue(parentOf(value) || '/')
  const listing = useAnswer(
    'host.directories',
    { path: asked },
    { enabled: focused && value.startsWith('/'), keep: true },
  )
  const begun = value.slice(parentOf(value).length)
  const entries = (listing.data?.entries ?? []).filter(
    (name) =>
      name.toLowerCase().startsWith(begun.toLowerCase()) && (begun.startsWith('.') || !name.startsWith('.')),
  )
  const shown = entries.slice(0, 40)
  const open = focused && shown.length > 0 && !(shown.length === 1 && shown[0] === begun)
  const take = (name: string) => {
    onChange(`${parentOf(value)}${name}/`)
    setMarked(0)
  }

  return (
    <div className="relative">
      <div className="flex h-9 items-center gap-2 rounded-lg bg-raised pr-1 pl-3 shadow-[0_0_0_1px_var(--line-strong)] focus-within:shadow-[0_0_0_1.5px_var(--accent-line)] has-aria-invalid:shadow-[0_0_0_1.5px_var(--bad-line)]">
        <Folder size={15} className="shrink-0 text-ink-faint" />
        <input
          data-autofocus={autoFocus ? '' : undefined}
          role="combobox"
          aria-label={label}
          aria-expanded={open}
          aria-controls={listId}
          aria-autocomplete="list"
          {...markedBy(trouble, messageId)}
          value={value}
          placeholder={`${home}/project`}
          spellCheck={false}
          autoComplete="off"
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          onChange={(event) => {
            const text = event.target.value
            onChange(text === '~' || text.startsWith('~/') ? home + text.slice(1) : text)
            setMarked(0)
          }}
          onKeyDown={(event) => {
            if (!open) return
            const name = shown[marked]
            if (event.key === 'ArrowDown') setMarked(Math.min(shown.length - 1, marked + 1))
            else if (event.key === 'ArrowUp') setMarked(Math.max(0, marked - 1))
            else if ((event.key === 'Tab' || event.key === 'Enter') && !event.shiftKey && name !== undefined)
              take(name)
            else if (event.key === 'Escape') {
              event.stopPropagation()
              setFocused(false)
            } else return
            event.preventDefault()
          }}
          className="min-w-0 flex-1 bg-transparent font-mono text-small outline-none"
        />
        {mode !== undefined && (
          <select
            aria-label={`${label}: what the agent may do`}
            value={mode}
            onChange={(event) => onMode(rootModes.find((each) => each === event.target.value) ?? 'rw')}
            className={`h-7 shrink-0 rounded-md bg-raised px-1.5 text-small outline-none hover:bg-hover focus-visible:shadow-[0_0_0_1.5px_var(--accent-line)] ${mode === 'rw' ? 'text-ink-soft' : 'text-ink'}`}
          >
            {rootModes.map((each) => (
              <option key={each} value={each}>
                {modeWords[each]}
              </option>
            ))}
          </select>
        )}
        {window.orangery !== undefined && (
          <Button
            look="quiet"
            size="small"
            icon={<FolderOpen size={14} />}
            tip="Choose a folder"
            aria-label="Choose a folder"
            onClick={() =>
              void window.orangery
                ?.chooseFolder(value || home)
                .then((path) => path !== null && onChange(path))
            }
          />
        )}
        {onRemove !== undefined && (
          <Button
            look="quiet"
            size="small"
            icon={<X size={14} />}
            aria-label="Remove folder"
            onClick={onRemove}
          />
        )}
      </div>
      {open && (
        <ul
          id={listId}
          role="listbox"
          aria-label="Folders"
          className="appear absolute inset-x-0 top-10 z-50 max-h-56 overflow-y-auto rounded-lg bg-raised p-1 shadow-pop"
        >
          {shown.map((name, at) => (
            <li
              key={name}
              role="option"
              aria-selected={at === marked}
              // Before the field loses its focus, and the list with it.
              onPointerDown={(event) => {
                event.preventDefault()
                take(name)
              }}
              className="flex h-7 items-center gap-2 rounded-md px-2 font-mono text-small hover:bg-hover aria-selected:bg-active"
            >
              <Folder size={13} className="shrink-0 text-ink-faint" />
              <span className="truncate">
                <Plain>{name}</Plain>
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
