import type { Judgement } from './judge.ts'
import { suite } from './suite.ts'

const words: Readonly<Record<Judgement['verdict'], string>> = {
  BLOCKED: 'BLOCKED',
  ALLOWED_AS_DESIGNED: 'ALLOWED_AS_DESIGNED',
  NOT_CLAIMED: 'NOT_CLAIMED',
  BREAKOUT: '**BREAKOUT**',
  INCONCLUSIVE: '**INCONCLUSIVE**',
  NOT_APPLICABLE: '—',
}

/** Attacks that need a host of their own or a whole dispatch, and the test that makes them. */
export const elsewhere: readonly { readonly attack: string; readonly file: string; readonly test: string }[] =
  [
    {
      attack: 'outlives a kill of the supervisor, the holder or bubblewrap',
      file: 'test/sandbox/kill.test.ts',
      test: 'leaves no process and no mount behind',
    },
    {
      attack: 'ignores the time limit, fills the disk, takes memory and processes',
      file: 'test/sandbox/limits.test.ts',
      test: 'is told apart as memory',
    },
    {
      attack: 'trashes everything it sees, for the next run of the project',
      file: 'test/sandbox/programs.test.ts',
      test: 'leaves the next run of the project clean',
    },
    {
      attack: 'swaps a folder for a link while a changeset is applied',
      file: 'test/changeset/swap.test.ts',
      test: 'leads nothing out of the root',
    },
    {
      attack: 'kill -9, a full disk or a lost permission in the middle of an apply',
      file: 'test/changeset/faults.test.ts',
      test: 'leaves all old or all new',
    },
    {
      attack: 'two applies at once',
      file: 'test/changeset/twoApplies.test.ts',
      test: 'of two applies at once one lands',
    },
    {
      attack: "speaks through another sandbox's channel",
      file: 'test/egress/chain.test.ts',
      test: "another sandbox's channel is out of reach",
    },
    {
      attack: 'opens ten thousand connections, half of them mute; reads slowly or never',
      file: 'test/egress/attacks.test.ts',
      test: 'leave the broker serving',
    },
    {
      attack: 'names one host to the proxy and another in TLS or in the request',
      file: 'src/engine/egress/disguises.test.ts',
      test: 'TLS for another name than the tunnel is for is cut',
    },
    {
      attack:
        'talks to a socket or pipe of the host below /opt or /usr, however it is called, or among the real files',
      file: 'src/engine/sandbox/sockets.test.ts',
      test: 'takes nothing from inside',
    },
    {
      attack:
        'keeps files writable by a mapping, a thread of its own or a message, when the boundary is narrowed',
      file: 'test/sandbox/boundary.test.ts',
      test: 'keeps nothing writable',
    },
    {
      attack: 'fills the disk with a file that has neither a name nor a descriptor',
      file: 'src/engine/sandbox/disk.test.ts',
      test: 'holds for a file without a name',
    },
    {
      attack: 'prints without end',
      file: 'src/engine/dispatch/output.test.ts',
      test: 'a flood is counted but does not fill the disk',
    },
  ]

/** The page `docs/escape-table.md`: driver × case, from what was found just now. */
export function renderTable(
  driver: string,
  root: readonly Judgement[],
  ordinary: readonly Judgement[],
): string {
  const verdictOf = (list: readonly Judgement[], id: string) => {
    const found = list.find((judgement) => judgement.id === id)
    return found === undefined ? 'not run' : words[found.verdict]
  }
  const groups = [...new Set(suite.map((escape) => escape.group))]
  const rows = groups.flatMap((group) => [
    `## ${group}`,
    '',
    `| case | the attack | ${driver} as root | as an ordinary user | what stops it |`,
    '| --- | --- | --- | --- | --- |',
    ...suite
      .filter((escape) => escape.group === group)
      .map(
        ({ id, attack, guard }) =>
          `| \`${id}\` | ${attack} | ${verdictOf(root, id)} | ${verdictOf(ordinary, id)} | ${guard} |`,
      ),
    '',
  ])
  return [
    '# What attacks on the sandbox came to',
    '',
    'Made by `node test/escape/write.ts`; `npm test` fails when a verdict is no longer what stands here. Each case is',
    'a program run inside by the real driver, with the same program run without the guard as its control (it',
    'must break out there, or the case does not count) and an oracle outside that never asks the program.',
    '"—": without any guard that user could not do it either.',
    '',
    ...rows,
    '## Attacked by other tests',
    '',
    '| the attack | the test |',
    '| --- | --- |',
    ...elsewhere.map(({ attack, file }) => `| ${attack} | \`${file}\` |`),
    '',
  ].join('\n')
}
