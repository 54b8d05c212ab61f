import { Argument, type Command } from 'commander'
import { bashScript, fishScript, zshScript } from '../completion.ts'
import { print, printJson } from '../terminal/print.ts'

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript }

export function registerCompletion(program: Command): void {
  program
    .command('completion')
    .summary('completion script for your shell')
    .description('Prints a script that completes commands and options in your shell.')
    .addArgument(new Argument('<shell>').choices(Object.keys(scripts)))
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      `
Examples:
  source <(orangery completion bash)
  orangery completion zsh > ~/.zfunc/_orangery
  orangery completion fish > ~/.config/fish/completions/orangery.fish`,
    )
    .action((shell: keyof typeof scripts, options: { json?: boolean }) => {
      const script = scripts[shell](program)
      if (options.json) printJson({ shell, script })
      else print(script)
    })
}
