import type { BoundaryLevel, Phase } from '../../shared/boundary.ts'
import type { ApprovalScope, RequestSource } from '../../shared/escalation.ts'
import type { Failure } from './testing.ts'

/** As it is drawn: `roots` and `ends` are put in place when it is written. */
export type Drawn = {
  level: BoundaryLevel
  hosts: string[]
  agent?: string
  elsewhere?: boolean
  endsIn?: number
  phase?: Phase
}
/** What a config keeps from an agent at a level, and at every narrower one; hosts at all levels. */
export type Forbidding = { level: BoundaryLevel; hosts: string[]; tools: string[]; hide: string[] }
export type Command =
  | { do: 'request'; to: BoundaryLevel; hosts: string[]; source: RequestSource }
  | { do: 'approve'; scope: ApprovalScope; inner?: boolean; unsaved?: boolean }
  | { do: 'deny' }
  | { do: 'narrow'; to: BoundaryLevel }
  | { do: 'take'; host: string }
  | {
      do: 'user'
      entries: Drawn[]
      maximum: BoundaryLevel
      auto: boolean
      autoElsewhere?: boolean
      forbids?: Forbidding
    }
  | {
      do: 'repository'
      entries: Drawn[]
      maximum?: BoundaryLevel
      auto?: boolean
      autoHosts?: string[]
      levelHosts?: string[]
      forbids?: Forbidding
    }
  | { do: 'trust'; yes: boolean }
  | { do: 'reconsider' }
  | { do: 'revoke'; task: boolean }
  | { do: 'wait'; ms: number }
  | { do: 'restart' }
  | { do: 'fail'; mode: Failure }

/** Played every time, because a run by chance may miss them: the policy's word for an agent, past the maximum, and for what was taken. */
const plays: [BoundaryLevel, Command[]][] = [
  [
    'readwrite',
    [
      { do: 'user', entries: [], maximum: 'full', auto: true },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'agent' },
    ],
  ],
  [
    'readonly',
    [
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'readonly', auto: true },
      { do: 'request', to: 'readwrite', hosts: [], source: 'driver' },
      { do: 'reconsider' },
    ],
  ],
  [
    'readonly',
    [
      { do: 'request', to: 'full', hosts: [], source: 'agent' },
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'readwrite', auto: false },
      { do: 'reconsider' },
      { do: 'approve', scope: 'once' },
    ],
  ],
  [
    'network',
    [
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'full', auto: true },
      { do: 'take', host: '*.test' },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'broker' },
      { do: 'reconsider' },
      { do: 'request', to: 'full', hosts: [], source: 'agent' },
      { do: 'approve', scope: 'project' },
      { do: 'restart' },
      { do: 'take', host: 'a.test' },
    ],
  ],
  // A name that waits is given the ports that somebody spoke of, and what was asked for stays as it is on record.
  [
    'readwrite',
    [
      { do: 'request', to: 'network', hosts: ['a.test'], source: 'broker' },
      { do: 'user', entries: [{ level: 'network', hosts: ['a.test:1'] }], maximum: 'full', auto: false },
      { do: 'reconsider' },
      { do: 'restart' },
      { do: 'approve', scope: 'project' },
    ],
  ],
  // A yes to one host at full is no yes to every other.
  [
    'full',
    [
      { do: 'request', to: 'full', hosts: ['b.test:1'], source: 'broker' },
      { do: 'approve', scope: 'once' },
      { do: 'restart' },
    ],
  ],
  // Nobody else's yes counts, nor one that has ended, is for elsewhere, or was taken back.
  ...[{ agent: 'codex' }, { endsIn: 60_000 }, { elsewhere: true }].map(
    (limit): [BoundaryLevel, Command[]] => [
      'readonly',
      [
        {
          do: 'user',
          entries: [{ level: 'network', hosts: ['a.test'], ...limit }],
          maximum: 'full',
          auto: false,
        },
        { do: 'wait', ms: 120_000 },
        { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'broker' },
        { do: 'repository', entries: [{ level: 'readwrite', hosts: [], ...limit }] },
        { do: 'trust', yes: true },
        { do: 'wait', ms: 120_000 },
        { do: 'request', to: 'readwrite', hosts: [], source: 'agent' },
        { do: 'reconsider' },
      ],
    ],
  ),
  [
    'readonly',
    [
      { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'agent' },
      { do: 'approve', scope: 'task' },
      { do: 'revoke', task: true },
      { do: 'user', entries: [], maximum: 'readwrite', auto: false },
      { do: 'reconsider' },
      { do: 'user', entries: [], maximum: 'full', auto: false },
      { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'broker' },
    ],
  ],
  // A yes to a host is no yes to files, to the network or to another host; one without a host names none.
  ...(
    [
      ['readonly', ['a.test'], 'readwrite', ['a.test:1']],
      ['readonly', ['a.test'], 'full', ['a.test:1']],
      ['readwrite', ['a.test'], 'network', []],
      ['readonly', ['a.test'], 'readwrite', []],
      ['readwrite', ['a.test'], 'network', ['b.test:1']],
      ['readwrite', [], 'network', ['b.test:1']],
    ] as const
  ).map(([start, saved, to, wished]): [BoundaryLevel, Command[]] => [
    start,
    [
      { do: 'user', entries: [{ level: to, hosts: [...saved] }], maximum: 'full', auto: false },
      { do: 'request', to: to === 'full' ? 'network' : to, hosts: [...wished], source: 'agent' },
      { do: 'request', to, hosts: [...wished], source: 'agent' },
      { do: 'reconsider' },
    ],
  ]),
  // A host comes without a level that nobody spoke of, and what a repository says is nobody's word until it is trusted.
  [
    'readwrite',
    [
      { do: 'user', entries: [{ level: 'readonly', hosts: ['a.test'] }], maximum: 'full', auto: false },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'broker' },
      { do: 'repository', entries: [{ level: 'full', hosts: [] }] },
      { do: 'request', to: 'full', hosts: [], source: 'agent' },
      { do: 'reconsider' },
    ],
  ],
  // What a program prints nobody answers but a person.
  [
    'readwrite',
    [
      { do: 'user', entries: [{ level: 'full', hosts: [] }], maximum: 'full', auto: true },
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'output' },
    ],
  ],
  // Who took it all back while a yes failed has the last word.
  [
    'readwrite',
    [
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'agent' },
      { do: 'fail', mode: 'overtaken' },
      { do: 'approve', scope: 'once' },
    ],
  ],
  // One host is not all that the contract names.
  [
    'readwrite',
    [
      { do: 'request', to: 'network', hosts: ['a.test:1'], source: 'broker' },
      { do: 'approve', scope: 'once' },
    ],
  ],
  // Below the network no host is open, whoever said so, and at whichever level.
  ...(['user', 'project'] as const).map((whose): [BoundaryLevel, Command[]] => [
    'readonly',
    [
      { do: 'user', entries: [{ level: 'readonly', hosts: ['a.test'] }], maximum: 'full', auto: false },
      { do: 'request', to: 'readonly', hosts: ['a.test:1'], source: 'broker' },
      whose === 'project'
        ? { do: 'repository', entries: [], maximum: 'readwrite' }
        : {
            do: 'user',
            entries: [{ level: 'readonly', hosts: ['*.test'] }],
            maximum: 'readwrite',
            auto: false,
          },
      { do: 'reconsider' },
      { do: 'request', to: 'readonly', hosts: ['b.test:1'], source: 'agent' },
      { do: 'request', to: 'readwrite', hosts: ['a.test:1'], source: 'agent' },
      { do: 'approve', scope: 'user' },
    ],
  ]),
]

const user = (
  entries: Drawn[],
  auto = false,
  more: { maximum?: BoundaryLevel; autoElsewhere?: boolean } = {},
) => ({ do: 'user', entries, maximum: 'full', auto, ...more }) as const
const asks = (to: BoundaryLevel, hosts: string[], source: RequestSource = 'agent') =>
  ({ do: 'request', to, hosts, source }) as const
const everything: Drawn[] = [{ level: 'full', hosts: [] }]

/** A repository's word before and after trust, an approval for elsewhere, another phase, another time. */
const strangers: [BoundaryLevel, Command[], Phase?][] = [
  [
    'readwrite',
    [user([{ level: 'network', hosts: ['a.test'], phase: 'plan' }]), asks('network', ['a.test:1'])],
  ],
  // A yes to files and one to a host give both, and no other host.
  [
    'readonly',
    [
      user([
        { level: 'readwrite', hosts: [] },
        { level: 'network', hosts: ['a.test'] },
      ]),
      asks('network', ['a.test:1', 'b.test:1']),
      asks('network', ['a.test:1']),
      asks('network', ['b.test:1']),
      asks('network', []),
    ],
  ],
  ['readwrite', [user([], true, { autoElsewhere: true }), asks('network', ['a.test:1'], 'broker')]],
  ['readwrite', [user([], true), asks('full', ['a.test:1'], 'broker')]],
  [
    'readonly',
    [user([], true), asks('readwrite', [], 'driver'), asks('readonly', ['a.test:1'], 'broker')],
    'plan',
  ],
  ['readonly', [user([], true), asks('readonly', ['a.test:1'], 'broker'), { do: 'reconsider' }], 'learn'],
  [
    'readwrite',
    [
      user([], true),
      { do: 'repository', entries: [], autoHosts: ['b.test'] },
      { do: 'trust', yes: true },
      asks('network', ['b.test:1'], 'broker'),
    ],
  ],
  [
    'readwrite',
    [user([]), { do: 'repository', entries: [], auto: true }, asks('network', ['a.test:1'], 'broker')],
  ],
  [
    'network',
    [
      { do: 'repository', entries: [], levelHosts: ['repository.test'] },
      { do: 'trust', yes: true },
      { do: 'repository', entries: everything, levelHosts: ['repository.test', 'a.test'] },
      asks('full', []),
    ],
  ],
  [
    'readwrite',
    [
      { do: 'repository', entries: everything },
      asks('network', ['a.test:1']),
      { do: 'approve', scope: 'project' },
      asks('full', []),
    ],
  ],
  [
    'readonly',
    [
      user([], false, { maximum: 'readwrite' }),
      { do: 'repository', entries: everything, maximum: 'full' },
      { do: 'trust', yes: true },
      asks('network', ['a.test:1']),
      asks('full', []),
      { do: 'approve', scope: 'once' },
      { do: 'reconsider' },
    ],
  ],
  [
    'readwrite',
    [asks('network', ['a.test:1']), { do: 'wait', ms: 3_600_000 }, { do: 'approve', scope: 'once' }],
  ],
  [
    'readwrite',
    [
      asks('network', ['a.test:1']),
      { do: 'approve', scope: 'once' },
      { do: 'narrow', to: 'readwrite' },
      asks('network', ['b.test:1']),
      { do: 'approve', scope: 'once' },
    ],
  ],
  // Saved for a folder in the project, and widened to all of it by whoever writes the file.
  [
    'readwrite',
    [
      asks('network', ['a.test:1']),
      { do: 'fail', mode: 'gone' },
      { do: 'approve', scope: 'project', inner: true },
      { do: 'repository', entries: [{ level: 'network', hosts: ['a.test:1'], agent: 'claude' }] },
      { do: 'reconsider' },
    ],
  ],
  // A change that did not take leaves no more on record than there was.
  [
    'readwrite',
    [asks('network', ['a.test:1']), { do: 'fail', mode: 'before' }, { do: 'approve', scope: 'once' }],
  ],
  // A trusted text that changes and comes back, with and without an approval that was taken out meanwhile.
  [
    'readwrite',
    [
      { do: 'repository', entries: everything },
      { do: 'trust', yes: true },
      { do: 'repository', entries: [] },
      { do: 'repository', entries: everything },
      asks('full', []),
    ],
  ],
]

const forbids: Forbidding = { level: 'full', hosts: ['a.test'], tools: ['Bash'], hide: ['.env'] }
/** Denied by either file, hidden further up, and saved where nothing can be written. */
const refusals: [BoundaryLevel, Command[]][] = [
  [
    'readwrite',
    [
      { do: 'user', entries: everything, maximum: 'full', auto: true, forbids },
      asks('network', ['a.test:1']),
      { do: 'approve', scope: 'once' },
      { do: 'request', to: 'network', hosts: ['a.test'], source: 'broker' },
      { do: 'restart' },
      { do: 'reconsider' },
    ],
  ],
  [
    'network',
    [
      asks('network', ['a.test:1']),
      { do: 'approve', scope: 'user' },
      { do: 'repository', entries: everything, forbids: { ...forbids, level: 'network' } },
      { do: 'trust', yes: true },
      { do: 'reconsider' },
      asks('full', []),
    ],
  ],
  // A list of a trusted repository's own does not take the place of the user's.
  [
    'network',
    [
      { do: 'user', entries: [], maximum: 'full', auto: false, forbids },
      { do: 'repository', entries: [], forbids: { ...forbids, hosts: ['b.test'], tools: [], hide: [] } },
      { do: 'trust', yes: true },
      { do: 'reconsider' },
    ],
  ],
  ...(['project', 'user'] as const).map((scope): [BoundaryLevel, Command[]] => [
    'readwrite',
    [
      asks('network', ['a.test:1']),
      { do: 'approve', scope, unsaved: true },
      { do: 'restart' },
      { do: 'deny' },
      asks('network', ['b.test:1']),
      { do: 'approve', scope },
    ],
  ]),
  [
    'readwrite',
    [
      asks('network', ['a.test:1']),
      { do: 'fail', mode: 'before' },
      { do: 'approve', scope: 'task' },
      { do: 'deny' },
      asks('network', ['a.test']),
    ],
  ],
]

/** With an open network over read-only files, where there is nothing to open. */
const overOpen: [BoundaryLevel, Command[], Phase, boolean][] = [
  ['readonly', [asks('network', ['a.test:1']), { do: 'approve', scope: 'once' }], 'build', true],
]

export const examples: [BoundaryLevel, Command[], Phase, boolean][] = [
  ...[...plays, ...strangers, ...refusals].map(
    ([start, commands, phase = 'build']): [BoundaryLevel, Command[], Phase, boolean] => [
      start,
      commands,
      phase,
      false,
    ],
  ),
  ...overOpen,
]
