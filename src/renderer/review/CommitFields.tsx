import { Choice, fieldLook } from '../design/Choice.tsx'

export type CommitDraft = {
  readonly branch: string
  readonly message: string
  readonly own: boolean
  readonly hooks: boolean
  readonly sign: boolean
}

const fresh: CommitDraft = { branch: 'orangery/review', message: '', own: false, hooks: false, sign: false }

/** The draft as the contract wants it: an empty message is none. */
export function commitOf({ branch, message, own, hooks, sign }: CommitDraft) {
  return {
    branch: branch.trim(),
    ...(own || message.trim() === '' ? {} : { message: message.trim() }),
    own,
    hooks,
    // Commits that the agent made are taken over as they are.
    ...(sign && !own ? { sign } : {}),
  }
}

/** Landing as a commit: on which branch, in whose words, and which programs of the user run for it. */
export function CommitFields({
  value,
  commits,
  onChange,
}: {
  value: CommitDraft | null
  /** How many commits the agent made itself. */
  commits: number
  onChange(value: CommitDraft | null): void
}) {
  return (
    <div className="space-y-2">
      <Choice checked={value !== null} onChange={(wanted) => onChange(wanted ? fresh : null)}>
        Also make a commit of it
      </Choice>
      {value !== null && (
        <div className="ml-6.5 space-y-2">
          <div className="flex flex-wrap gap-2">
            <input
              aria-label="Branch"
              value={value.branch}
              onChange={(event) => onChange({ ...value, branch: event.target.value })}
              placeholder="Branch"
              spellCheck={false}
              className={`${fieldLook} h-7 w-44 font-mono text-small`}
            />
            <input
              aria-label="Message"
              value={value.message}
              disabled={value.own}
              onChange={(event) => onChange({ ...value, message: event.target.value })}
              placeholder={value.own ? 'The agent’s own messages' : 'Message: taken from the dispatch'}
              className={`${fieldLook} h-7 min-w-40 flex-1 disabled:bg-sunken`}
            />
          </div>
          {commits > 0 && (
            <Choice checked={value.own} onChange={(own) => onChange({ ...value, own })}>
              Keep the {commits === 1 ? 'commit' : `${commits} commits`} the agent made
            </Choice>
          )}
          <Choice checked={value.hooks} onChange={(hooks) => onChange({ ...value, hooks })}>
            Run my git hooks
          </Choice>
          {!value.own && (
            <Choice checked={value.sign} onChange={(sign) => onChange({ ...value, sign })}>
              Sign it with my key
            </Choice>
          )}
        </div>
      )}
    </div>
  )
}
