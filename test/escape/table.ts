import type { Judgement } from './judge.ts'
import { proofs } from './proofs.ts'
import { suite } from './suite.ts'

const words: Readonly<Record<Judgement['verdict'], string>> = {
  BLOCKED: 'BLOCKED',
  ALLOWED_AS_DESIGNED: 'ALLOWED_AS_DESIGNED',
  NOT_CLAIMED: 'NOT_CLAIMED',
  BREAKOUT: '**BREAKOUT**',
  INCONCLUSIVE: '**INCONCLUSIVE**',
  NOT_APPLICABLE: '—',
}

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
    'Each other case is run in a sandbox that stood before there was a dispatch, the others by the other user.',
    '"—": without any guard that user could not do it either. Comments in the source name the attack that a rule stops by',
    'the id of a case, or of one of those that other tests make (at the end); a test holds them to it.',
    '',
    ...rows,
    '## Attacked by other tests',
    '',
    '| attack | what is done | the test that makes it |',
    '| --- | --- | --- |',
    ...proofs.map(
      ({ ids, attack, folder, test }) =>
        `| ${ids.map((id) => `\`${id}\``).join(' ')} | ${attack} | ${test} (\`${folder}\`) |`,
    ),
    '',
  ].join('\n')
}

/** For the README: of each section of that page how many attacks there are, and how many were blocked for whom. */
export function summarise(page: string): string {
  const sections = page.split('\n## ').slice(1)
  const rows = sections.flatMap((section) => {
    const [name = ''] = section.split('\n')
    const cells = section.split('\n').filter((line) => line.startsWith('| `'))
    const columns = cells.map((line) => line.split('|').map((cell) => cell.trim()))
    const blocked = (column: number) => columns.filter((row) => row[column] === 'BLOCKED').length
    const isOther = name === 'Attacked by other tests'
    return [
      `| ${name} | ${cells.length} | ${isOther ? 'by their tests' : blocked(3)} | ${isOther ? '' : blocked(4)} |`,
    ]
  })
  return [
    '| attacks | in all | blocked as root | as an ordinary user |',
    '| --- | --- | --- | --- |',
    ...rows,
  ].join('\n')
}
