import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { EffectiveConfig, Provenance, TrustQuestion } from '../../shared/config.ts'
import { configJsonSchema } from '../../shared/configJsonSchema.ts'
import { OrangeryError } from '../../shared/errors.ts'
import { lineDifference } from '../../shared/lineDifference.ts'
import { showAll } from '../../shared/visible.ts'
import { withClient } from '../connect.ts'
import { print, printJson } from '../terminal/print.ts'
import { paint } from '../terminal/style.ts'
import { renderTable } from '../terminal/table.ts'

type Json = { readonly json?: boolean }
type Places = Json & { readonly dir?: readonly string[] }
const gather = (value: string, before: readonly string[] = []) => [...before, value]
const rootsOf = ({ dir }: Places): string[] => (dir ?? ['.']).map((folder) => resolve(folder))

const placeOf = ({ source, file, line }: Provenance) => (file === null ? source : `${showAll(file)}:${line}`)

function valueAt(config: EffectiveConfig, key: string): unknown {
  let value: unknown = config
  for (const step of key.split('.')) value = (value as Record<string, unknown> | undefined)?.[step]
  return value
}

/** What a sandbox is made with: one that stands already stays as it is. */
const holdsLater = /^sandboxLevels\.\w+\.(hide|writable)$|^sandboxPhaseFiles\./

function renderConfig(config: EffectiveConfig, all: boolean): string {
  const rows = Object.entries(config.provenance)
    .filter(
      ([key, sources]) => all || !key.includes('.') || sources.some(({ source }) => source !== 'default'),
    )
    .map(([key, sources]) => [
      key,
      sources.map(placeOf).join(', '),
      showAll(JSON.stringify(valueAt(config, key))) + (holdsLater.test(key) ? ' (from the next run on)' : ''),
    ])
  const notices = [
    ...config.projects
      .filter(({ trust }) => trust === 'untrusted' || trust === 'changed')
      .map(({ file, trust }) =>
        paint('yellow', `${showAll(file)} is ${trust}: it can only narrow; see \`orangery config trust\``),
      ),
    ...config.heldBack.map(({ file, line, key, message }) => `${showAll(file)}:${line}: ${key}: ${message}`),
    ...config.warnings.map(({ file, line, key, message }) =>
      paint('yellow', `${showAll(file)}:${line}: ${showAll(key)}: ${message}`),
    ),
  ]
  return [renderTable(['key', 'from', 'value'], rows), ...notices].join('\n')
}

async function show(options: Places & { readonly effective?: boolean }) {
  const config = await withClient((client) => client.call('config.show', { roots: rootsOf(options) }))
  if (options.json) printJson(config)
  else print(renderConfig(config, options.effective === true))
}

const marks = { same: ' ', added: '+', removed: '-' } as const
const colours = { same: 'dim', added: 'green', removed: 'red' } as const

function renderDifference({ before, now }: TrustQuestion): string {
  return lineDifference(before, now)
    .map(({ kind, text }) => paint(colours[kind], `${marks[kind]} ${showAll(text)}`))
    .join('\n')
}

type TrustOptions = Json & { readonly yes?: boolean; readonly remove?: boolean; readonly sha256?: string }

async function trust(folder: string | undefined, options: TrustOptions) {
  const root = resolve(folder ?? '.')
  await withClient(async (client) => {
    if (options.remove === true) {
      const state = await client.call('config.trust', { root, sha256: null })
      return options.json ? printJson(state) : print(`${state.project} is not trusted any more`)
    }
    const question = await client.call('config.question', { root })
    if (question.sha256 === null) {
      throw new OrangeryError('config.absent', `${question.file}: there is none`, {
        kind: 'not_found',
        hint: 'Without a config of its own there is nothing to trust.',
      })
    }
    if (options.yes !== true && options.json) return printJson(question)
    // Nobody trusts what he was not shown, also where he has decided already.
    if (!options.json) {
      print(`${question.file} is ${question.trust}`)
      print(renderDifference(question))
    }
    if (options.yes !== true) {
      return print(
        `\nTo trust exactly this text: orangery config trust ${showAll(root)} --yes --sha256 ${question.sha256}`,
      )
    }
    const state = await client.call('config.trust', { root, sha256: options.sha256 ?? question.sha256 })
    if (options.json) printJson(state)
    else print(`${state.file} is trusted`)
  })
}

export function registerConfig(program: Command): void {
  const config = program
    .command('config')
    .summary('settings: what holds and where it came from; trust in a project')
    .helpCommand(false)
    .description('The settings of your config.json and of a project’s .orangery.json.')

  config
    .command('show')
    .summary('what holds, and where each value came from')
    .description('Shows what holds for a folder and where each value came from.')
    .option('--effective', 'every value, also those nobody set')
    .option('--dir <folder>', 'for dispatches on this folder; repeatable (default: this folder)', gather)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery config show --effective')
    .action(show)

  config
    .command('schema')
    .summary('the JSON schema of the config files, for an editor')
    .description('Prints the JSON schema of the config files. Keep it in a file and name that in "$schema".')
    .option('--json', 'print JSON, which it is in any case')
    .addHelpText(
      'after',
      '\nExample:\n  orangery config schema > ~/.config/orangery/schema.json   # "$schema": "./schema.json"',
    )
    .action(() => void process.stdout.write(configJsonSchema()))

  config
    .command('trust [folder]')
    .summary('let a project’s own config widen things')
    .description(
      'Shows a project’s own config, or what changed in it since it was trusted; with --yes trusts what it showed.',
    )
    .option('--yes', 'trust it as it is now')
    .option('--sha256 <hash>', 'refuse if the file is not this one any more')
    .option('--remove', 'take trust back')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery config trust . --yes')
    .action(trust)
}
