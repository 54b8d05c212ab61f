import { open, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import type { Client, Output } from '../../shared/api.ts'
import { exportFormats, type ExportFormat } from '../../shared/changeset.ts'
import { exitCodes, OrangeryError } from '../../shared/errors.ts'
import { withClient } from '../connect.ts'
import { printError } from '../failure.ts'
import { oneOf } from './changeset.settling.ts'

type Diff = Output<'changeset.diff'>

/** The diff as git wrote it: content in another encoding than UTF-8 would not survive as text. */
export const bytesOf = ({ text, text_b64 }: Pick<Diff, 'text' | 'text_b64'>) =>
  text_b64 === undefined ? Buffer.from(text) : Buffer.from(text_b64, 'base64')

export function warnIfCut({ truncated }: Diff, id: string): void {
  if (!truncated) return
  printError(`${id}: the diff is too long and ends early`, 'Read it file by file with --path.')
  process.exitCode = exitCodes.input
}

export function warnIfLeftOut({ left_out: names }: Pick<Diff, 'left_out'>): void {
  if (names === undefined) return
  const hint = 'A file this large lands only by `orangery changeset apply`.'
  printError(`too large for a patch and left out: ${names.join(', ')}`, hint)
}

type ExportOptions = {
  readonly json?: boolean
  readonly output?: string
  readonly includeIgnored?: boolean
  readonly format?: string
}
type Wanted = { readonly id: string; readonly include_ignored: boolean }

/** Undefined: a plain diff. */
function formatOf({ format: word, json }: ExportOptions): ExportFormat | undefined {
  const format = word === undefined ? undefined : oneOf(exportFormats, word, 'format')
  if (json !== true || format === 'json') return format
  if (format === undefined) return 'json'
  throw new OrangeryError('usage.export', `--format ${format} is no JSON`, {
    kind: 'usage',
    hint: 'Leave --json or --format away.',
  })
}

async function exportChangeset(id: string, options: ExportOptions): Promise<void> {
  const format = formatOf(options)
  const wanted = { id, include_ignored: options.includeIgnored === true }
  await withClient(async (client) => {
    const chunks = format === undefined ? diffOf(client, wanted) : filesOf(client, { ...wanted, format })
    await (options.output === undefined
      ? pipeline(Readable.from(chunks), process.stdout, { end: false })
      : save(chunks, options.output))
  })
}

async function* filesOf(
  client: Client,
  wanted: Wanted & { readonly format: ExportFormat },
): AsyncGenerator<Buffer> {
  for await (const piece of client.open('changeset.export', wanted)) {
    warnIfLeftOut(piece)
    yield Buffer.from(piece.data_b64, 'base64')
  }
}

async function* diffOf(client: Client, wanted: Wanted): AsyncGenerator<Buffer> {
  const diff = await client.call('changeset.diff', wanted)
  warnIfCut(diff, wanted.id)
  warnIfLeftOut(diff)
  yield bytesOf(diff)
}

/** Piece by piece into a new file, which goes again where it did not become whole. */
async function save(chunks: AsyncIterable<Buffer>, path: string): Promise<void> {
  const file = await open(path, 'wx', 0o666).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'EEXIST' ? 'it is there already' : 'cannot be written'
    throw new OrangeryError('cli.output_file', `--output ${path}: ${why}`, {
      kind: 'cannot_create',
      hint: 'Name a file that does not exist, in a folder you may write to.',
    })
  })
  try {
    for await (const chunk of chunks) await file.writeFile(chunk)
    await file.close()
  } catch (error) {
    await file.close().catch(() => {})
    await rm(path, { force: true })
    throw error
  }
}

export function registerExport(changeset: Command): void {
  changeset
    .command('export <id>')
    .summary('the changeset as a patch, a tar, or JSON for another reviewer')
    .description(
      'Writes the changeset as a unified diff, in another format with --format, or with --format json as one document for another reviewer. Files ignored by git are in it only when asked for.',
    )
    .option('-o, --output <file>', 'write to this new file (default: standard output)')
    .option('--format <format>', 'patch (a mail for git am), tar or json')
    .option('--include-ignored', 'ignored files too')
    .option('--json', 'the same as --format json')
    .addHelpText(
      'after',
      '\nExamples:\n  orangery changeset export 20260128 -o fix.patch\n  orangery changeset export 20260128 --format tar -o results.tar',
    )
    .action(exportChangeset)
}
