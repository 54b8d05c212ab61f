import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { SpawnInput } from '../shared/api.ts'
import { phaseSchema } from '../shared/boundary.ts'
import { contractOfOptions, type ContractOptions } from '../shared/contractOptions.ts'
import { OrangeryError } from '../shared/errors.ts'
import { maximumSpecBytes, parseSandboxSpec, tooLarge } from '../shared/spec.ts'
import { wasSpelledOut } from './spelledOut.ts'

/** Of two contracts one would be dropped in silence. */
function onlyOnce(value: string, before: string | undefined): string {
  if (before === undefined) return value
  throw new OrangeryError('usage.repeated_option', '--sandbox-spec: it is given twice', {
    kind: 'usage',
    hint: 'Give one contract.',
  })
}

export const gather = (value: string, before: readonly string[] = []) => [...before, value]

/** What `run`, `dispatch spawn` and `preflight` have in common. */
export type SpawnOptions = ContractOptions & {
  readonly dir?: readonly string[]
  readonly env?: readonly string[]
  readonly agent?: string
  readonly prompt?: string
  readonly systemPrompt?: string
  readonly name?: string
  readonly role?: string
  readonly phase?: string
  readonly parent?: string
  readonly sandbox?: string
  readonly sandboxSpec?: string
  readonly invocation?: string
  readonly worktree?: string
}

export function addSpawnOptions(command: Command): Command {
  return command
    .optionsGroup('What runs:')
    .option('--agent <id>', 'agent to run; a plain command where left out')
    .option('--prompt <text>', "the agent's task")
    .option('--system-prompt <text>', 'what the agent is told about itself')
    .option('--name <text>', 'a name to show')
    .option('--role <text>', 'role of the agent, for policies')
    .option('--phase <phase>', 'plan, build or learn')
    .option('--parent <id>', 'dispatch this one belongs to')
    .optionsGroup('Where:')
    .option('--dir <folder>', 'root the agent works on; repeat for several (default: this folder)', gather)
    .option('--env <name>', 'pass this environment variable through; repeatable', gather)
    .option('--invocation <id>', 'run in a sandbox that `agent start` made')
    .option('--worktree <name>', 'start a sandbox in this integration worktree and run there')
    .optionsGroup('Contract (stored as the sandbox spec they amount to):')
    .option('--level <level>', '0..3 or bare-cli, os-sandboxed, container, vm (default: 1)')
    .option('--changeset <strategy>', 'overlay, clone, worktree or none (default: overlay)')
    .option('--isolation <kind>', 'none, os, container or vm: the level in other words')
    .option('--platform <platform>', 'mac, linux, container, cloud or hybrid')
    .option('--outputs <mode>', 'none, restricted or open (default: none)')
    .option('--allow-host <host[:port][=addr:port]>', 'host the agent may reach; repeatable', gather)
    .option('--boundary <level>', 'readonly, readwrite, network or full (default: readwrite)')
    .option('--root-mode <folder=mode>', 'rw, ro or hidden for one root; repeatable (default: rw)', gather)
    .option('--software <name>', 'macos, linux, freebsd or an image reference')
    .option('--memory-mb <n>', 'memory limit')
    .option('--cpus <n>', 'processor limit')
    .option('--pids <n>', 'process limit')
    .option('--disk-mb <n>', 'limit of what the agent may write')
    .option('--timeout-s <n>', 'time limit; the run then ends with 124')
    .option(
      '--sandbox-spec <json|@file>',
      'the whole contract as JSON, instead of the options above',
      onlyOnce,
    )
    .option('--sandbox <mode>', 'legacy access mode, e.g. workspace-write')
    .optionsGroup('Options:')
}

/** The folder the caller sees himself in: through its symlinks, where the shell says so truly. */
function callersFolder(): string {
  let real: string
  try {
    real = process.cwd()
  } catch {
    throw new OrangeryError('cli.no_folder', 'this folder: it does not exist any more', {
      kind: 'not_found',
      hint: 'Change to a folder that exists, or name one with --dir.',
    })
  }
  const named = process.env['PWD']
  if (named?.startsWith('/') !== true) return real
  const there = statSync(named, { throwIfNoEntry: false })
  // Not by its name, which need not be text.
  const here = statSync('.')
  return there?.dev === here.dev && there.ino === here.ino ? resolve(named) : real
}

/** Of a file without an end, or a huge one, no more than this many bytes. */
function readUpTo(file: string, most: number): Buffer {
  const descriptor = openSync(file, 'r')
  try {
    const bytes = Buffer.alloc(most)
    let length = 0
    for (let read = 1; read > 0 && length < most; length += read) {
      read = readSync(descriptor, bytes, length, most - length, null)
    }
    return bytes.subarray(0, length)
  } finally {
    closeSync(descriptor)
  }
}

function readSpec(given: string): string {
  if (!given.startsWith('@')) {
    if (wasSpelledOut(given)) return given
    throw new OrangeryError('cli.spec_encoding', '--sandbox-spec: not UTF-8 text', {
      kind: 'input',
      hint: 'Give the JSON as UTF-8, or write other characters as \\u escapes.',
    })
  }
  const file = given.slice(1)
  let bytes: Buffer
  try {
    bytes = readUpTo(file, maximumSpecBytes + 1)
  } catch (error) {
    const why =
      (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : 'cannot be read'
    throw new OrangeryError('cli.spec_file', `--sandbox-spec ${given}: ${why}`, {
      kind: 'not_found',
      hint: 'After @ comes the path of a JSON file.',
    })
  }
  if (bytes.length > maximumSpecBytes) throw tooLarge()
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new OrangeryError('cli.spec_encoding', `--sandbox-spec ${given}: not UTF-8 text`, {
      kind: 'input',
      hint: 'Save the file as UTF-8.',
    })
  }
}

/** The contract's text: as given, or what the options amount to; undefined where neither is there. */
function contractText(options: SpawnOptions): string | undefined {
  const rootMode = options.rootMode?.map((text) => text.replace(/^[^]+(?==)/, (folder) => resolve(folder)))
  const amounted = contractOfOptions({ ...options, rootMode })
  if (options.sandboxSpec === undefined) return amounted === null ? undefined : JSON.stringify(amounted)
  if (amounted !== null) {
    throw new OrangeryError(
      'usage.spec_and_options',
      '--sandbox-spec: given together with contract options',
      {
        kind: 'usage',
        hint: `Put everything into the spec; the options amount to ${JSON.stringify(amounted)}.`,
      },
    )
  }
  return readSpec(options.sandboxSpec)
}

export function passedEnv(names: readonly string[] = []): Record<string, string> {
  const entries = names.map((name) => {
    const value = process.env[name]
    if (value !== undefined) return [name, value] as const
    throw new OrangeryError('cli.env_not_set', `--env ${name}: it is not set here`, {
      kind: 'input',
      hint: name.includes('=')
        ? 'Give only the name; the value is taken from your environment.'
        : 'Set it first.',
    })
  })
  return Object.fromEntries(entries)
}

function parsePhase(phase: string | undefined) {
  if (phase === undefined) return undefined
  const parsed = phaseSchema.safeParse(phase)
  if (parsed.success) return parsed.data
  throw new OrangeryError('usage.phase', `--phase ${phase}: not a phase`, {
    kind: 'usage',
    hint: 'Phases are plan, build and learn.',
  })
}

/** What is to be spawned, from options and the words after them. Reads the environment, changes nothing. */
export function spawnInput(options: SpawnOptions, command: readonly string[]): SpawnInput {
  const agent = options.agent ?? 'command'
  if (agent === 'command' && command.length === 0) {
    throw new OrangeryError('usage.no_command', 'command: there is none to run', {
      kind: 'usage',
      hint: 'Give it after two dashes: orangery run -- npm test. Or name an agent with --agent.',
    })
  }
  if (agent !== 'command' && command.length > 0) {
    throw new OrangeryError('usage.agent_and_command', `--agent ${agent}: given together with a command`, {
      kind: 'usage',
      hint: 'Give the agent its task with --prompt.',
    })
  }
  // An empty word is a variable that was not set: neither the legacy mode nor the folder may then be our guess.
  if (options.sandbox === '') {
    throw new OrangeryError('usage.empty_sandbox', '--sandbox: it is empty', {
      kind: 'usage',
      hint: 'It takes read-only, workspace-write or full.',
    })
  }
  const text = contractText(options)
  const spec = text === undefined ? null : parseSandboxSpec(text)
  if (options.dir?.includes('') === true) {
    throw new OrangeryError('usage.empty_dir', '--dir: it is empty', {
      kind: 'usage',
      hint: 'Name a folder, or leave --dir out for this one.',
    })
  }
  const dirs = options.dir?.map((dir) => resolve(dir)) ?? []
  const { columns, rows } = process.stdout
  const given = {
    prompt: options.prompt,
    system_prompt: options.systemPrompt,
    name: options.name,
    role: options.role,
    phase: parsePhase(options.phase),
    parent: options.parent,
    sandbox: options.sandbox,
    sandbox_spec: text,
    invocation: options.invocation,
    worktree: options.worktree,
    size: process.stdout.isTTY ? { columns, rows } : undefined,
  }
  const present = Object.entries(given).filter(([, value]) => value !== undefined)
  return {
    agent,
    command: [...command],
    roots: dirs.length > 0 ? dirs : (spec?.roots ?? [callersFolder()]),
    env: passedEnv(options.env),
    ...(Object.fromEntries(present) as Partial<SpawnInput>),
  }
}
