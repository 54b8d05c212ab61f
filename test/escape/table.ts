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

const others = 'Attacked by other tests'

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
    '"—": without any guard that user could not do it either. Where root has to prepare something first, the ordinary user',
    'attacks what root prepared. Comments in the source name the attack that a rule stops by',
    'the id of a case, or of one of those that other tests make (at the end); a test holds them to it.',
    '',
    ...rows,
    `## ${others}`,
    '',
    'Each is made once, as whoever runs `npm test`; not each has a control.',
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

type Row = readonly [section: string, id: string, attack: string, root: string, ordinary: string]

/** The cases of that page, as they stand there. */
function rowsOf(page: string): readonly Row[] {
  const sections = page.split('\n## ').slice(1)
  return sections.flatMap((section) => {
    const [name = ''] = section.split('\n')
    if (name === others) return []
    const lines = section.split('\n').filter((line) => line.startsWith('| `'))
    return lines.map((line): Row => {
      const [, id = '', attack = '', root = '', ordinary = ''] = line.split('|').map((cell) => cell.trim())
      return [name, id, attack, root, ordinary]
    })
  })
}

/** For the README, from that page: how many attacks of how many that could be made were blocked, and then each. */
export function summarise(page: string): string {
  const rows = rowsOf(page)
  const blocked = (verdicts: readonly string[]) => {
    const made = verdicts.filter((verdict) => verdict !== '—')
    return `${made.filter((verdict) => verdict === 'BLOCKED').length} of ${made.length}`
  }
  const counts = [...new Set(rows.map(([section]) => section))].map((name) => {
    const own = rows.filter(([section]) => section === name)
    return `| ${name} | ${blocked(own.map((row) => row[3]))} | ${blocked(own.map((row) => row[4]))} |`
  })
  const elsewhere = page.slice(page.indexOf(`\n## ${others}`)).split('\n')
  const made = elsewhere.filter((line) => line.startsWith('| `')).length
  return [
    '| attacks | blocked on Linux as root | as an ordinary user |',
    '| --- | --- | --- |',
    ...counts,
    '',
    `${made} more attacks are made by other tests, once, as whoever runs \`npm test\`: the page names each with its test.`,
    '',
    '<details><summary>Each of them</summary>',
    '',
    '| case | the attack | Linux as root | as an ordinary user |',
    '| --- | --- | --- | --- |',
    ...rows.map(([, ...cells]) => `| ${cells.join(' | ')} |`),
    '',
    '</details>',
  ].join('\n')
}
