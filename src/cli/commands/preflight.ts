import type { Command } from 'commander'
import { exitCodes } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { addSpawnOptions, spawnInput, type SpawnOptions } from '../spawnOptions.ts'
import { print, printJson } from '../terminal/print.ts'
import { renderCheck } from './doctor.ts'

export function registerPreflight(program: Command): void {
  const preflight = program
    .command('preflight')
    .summary('the checks before a spawn, without spawning')
    .description('Makes every check a spawn would make and starts nothing. Ends with 69 when one fails.')
    .argument('[command...]', 'the command that would run')
    .passThroughOptions()
  addSpawnOptions(preflight)
    .option('--json', 'print JSON')
    .option('--plan', 'also print the sandbox as it would be made, one fact a line')
    .addHelpText(
      'after',
      '\nExamples:\n  orangery preflight -- npm test\n  orangery preflight --level 2 --json -- npm test\n  orangery preflight --plan --boundary readonly -- npm test',
    )
    .action((command: string[], options: SpawnOptions & { json?: boolean; plan?: boolean }) =>
      withClient(async (client) => {
        const report = await client.call('dispatch.preflight', spawnInput(options, command))
        if (options.json) printJson(report)
        else print(report.checks.map(renderCheck).join('\n'))
        if (options.plan === true && options.json !== true && report.plan !== undefined)
          print(`\n${report.plan.trimEnd()}`)
        if (!report.ok) process.exitCode = exitCodes.preflight
      }),
    )
}
