import { Plus } from 'lucide-react'
import { useState } from 'react'
import { useAct, useAnswer } from '../client/queries.ts'
import { Button } from '../design/Button.tsx'
import { fieldLook } from '../design/Choice.tsx'
import { Plain } from '../text/Plain.tsx'

type WorktreeFieldProps = {
  /** The repository's folder. */
  folder: string
  /** Id of the chosen one. */
  value: string
  onChange(id: string): void
}

/** Which integration worktree of the folder's repository it works from; a new one is made here, too. */
export function WorktreeField({ folder, value, onChange }: WorktreeFieldProps) {
  const [name, setName] = useState('')
  const worktrees = useAnswer('worktree.list', {}, { fresh: true })
  const create = useAct('worktree.create', {
    onDone: ({ worktree_id: id }) => {
      setName('')
      onChange(id)
    },
  })
  const known = (worktrees.data ?? []).filter(
    ({ broken, meta }) => !broken && meta !== null && meta.outcome === null && meta.repo_path === folder,
  )
  const make = () => name.trim() !== '' && create.mutate({ repo: folder, name: name.trim() })
  return (
    <div className="space-y-2">
      {known.length > 0 && (
        <div className="flex flex-wrap gap-1.5" role="group" aria-label="Worktree">
          {known.map(({ id, meta }) => (
            <button
              key={id}
              type="button"
              aria-pressed={value === id}
              onClick={() => onChange(id)}
              className="h-7 rounded-md px-2.5 text-small text-ink-soft shadow-[0_0_0_1px_var(--line-strong)] hover:bg-hover aria-pressed:bg-accent-wash aria-pressed:font-medium aria-pressed:text-accent-ink aria-pressed:shadow-[0_0_0_1.5px_var(--accent)]"
            >
              <Plain>{meta?.name ?? id}</Plain>
            </button>
          ))}
        </div>
      )}
      <div className="flex gap-2">
        <input
          aria-label="Name of a new worktree"
          value={name}
          onChange={(event) => setName(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            event.preventDefault()
            make()
          }}
          placeholder="New worktree"
          spellCheck={false}
          className={`${fieldLook} h-7 min-w-0 flex-1`}
        />
        <Button
          icon={<Plus size={13} />}
          disabled={name.trim() === '' || folder === '' || create.isPending}
          onClick={make}
        >
          {create.isPending ? 'Making it…' : 'Create'}
        </Button>
      </div>
    </div>
  )
}
