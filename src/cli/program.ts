import { Command } from 'commander'
import { OrangeryError } from '../shared/errors.ts'
import packageFile from '../../package.json' with { type: 'json' }
import { registerBoundary } from './commands/boundary.ts'
import { registerAgent } from './commands/agent.ts'
import { registerChangeset } from './commands/changeset.ts'
import { registerCompletion } from './commands/completion.ts'
import { registerConfig } from './commands/config.ts'
import { registerDisk } from './commands/disk.ts'
import { registerDispatch } from './commands/dispatch.ts'
import { registerDoctor } from './commands/doctor.ts'
import { registerPreflight } from './commands/preflight.ts'
import { registerRun } from './commands/run.ts'
import { registerWorktree } from './commands/worktree.ts'
import { registerServe } from './commands/serve.ts'

/** An empty word is a variable that was not set: it names nothing, and must not be taken for the beginning of all. */
function refuseEmpty(command: Command): void {
  for (const [index, argument] of command.registeredArguments.entries()) {
    if (!argument.required || command.args[index] !== '') continue
    throw new OrangeryError('cli.empty', `${argument.name()}: it is empty`, {
      kind: 'not_found',
      hint: `Give the ${argument.name()} after the command.`,
    })
  }
}

/** The whole command line. A command group is one file in `commands/` with one function that adds it. */
export function createProgram(): Command {
  const program = new Command('orangery')
    .description('Runs coding agents in sandboxes; nothing they write lands before you have let it in.')
    .version(packageFile.version, '-V, --version')
    .helpCommand(false)
    // Options of what `run` starts are not ours: ours end at the first word.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .showSuggestionAfterError()
    .hook('preAction', (_program, command) => refuseEmpty(command))
  registerRun(program)
  registerDispatch(program)
  registerChangeset(program)
  registerBoundary(program)
  registerConfig(program)
  registerWorktree(program)
  registerAgent(program)
  registerPreflight(program)
  registerDoctor(program)
  registerDisk(program)
  registerServe(program)
  registerCompletion(program)
  program.addHelpText(
    'after',
    `
Examples:
  orangery run -- npm test                 run a command; its writes wait for review
  orangery changeset diff 20260128         what it changed (any unique start of the id will do)
  orangery changeset apply 20260128 --all  let it in
  orangery doctor                          what this machine can do

Records are kept in $ORANGERY_DATA_DIR. Exit codes: 64 usage, 65 bad input, 66 not found,
69 preflight failed, 70 our fault, 73 cannot create, 75 busy or conflict, 77 refused.`,
  )
  return program
}
