import { Dialog } from '../design/Dialog.tsx'
import { Keys } from '../design/Keys.tsx'

const groups: readonly { title: string; keys: readonly (readonly [string, string])[] }[] = [
  {
    title: 'Everywhere',
    keys: [
      ['n', 'New dispatch'],
      ['i', 'What asks for more'],
      ['/', 'Search'],
      ['↑ ↓', 'Previous, next dispatch'],
      ['o', 'Output'],
      ['c', 'Changes'],
      ['e', 'Record'],
      ['p', 'Apply'],
      ['?', 'These keys'],
    ],
  },
  {
    title: 'Review',
    keys: [
      ['j k', 'Next, previous hunk'],
      ['l h', 'Next, previous file'],
      ['a', 'Approve the hunk'],
      ['x', 'Reject the hunk'],
      ['r', 'Ask for rework'],
      ['u', 'Take back the last decision'],
      ['v', 'Side by side or unified'],
      ['/', 'Find a file'],
    ],
  },
  {
    title: 'Asking for more',
    keys: [
      ['j k', 'Next, previous'],
      ['a', 'Allow once'],
      ['t', 'Allow for the task'],
      ['s', 'Allow and save to the project'],
      ['u', 'Allow and save for you'],
      ['x', 'Deny, with a word to the agent'],
      ['↵', 'Open the dispatch'],
    ],
  },
]

export function KeysDialog({ open, onClose }: { open: boolean; onClose(): void }) {
  return (
    <Dialog open={open} onClose={onClose} title="Keys" width="max-w-3xl">
      <div className="grid grid-cols-3 gap-8 pb-2 tight:grid-cols-1 tight:gap-5">
        {groups.map((group) => (
          <section key={group.title}>
            <h3 className="mb-2 text-small font-medium text-ink-faint">{group.title}</h3>
            <dl className="space-y-1.5">
              {group.keys.map(([keys, what]) => (
                <div key={keys} className="flex items-center justify-between gap-4">
                  <dt>{what}</dt>
                  <dd>
                    <Keys>{keys}</Keys>
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  )
}
