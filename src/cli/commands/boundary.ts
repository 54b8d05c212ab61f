import { resolve } from 'node:path'
import type { Command } from 'commander'
import { boundaryLevels, boundaryRank, isReadingPhase, type BoundaryLevel } from '../../shared/boundary.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { ApprovalScope, BoundaryRequest, BoundaryState } from '../../shared/escalation.ts'
import { opensEveryHost } from '../../shared/opens.ts'
import { withClient } from '../connect.ts'
import { print, printJson, printJsonLine } from '../terminal/print.ts'
import { printNotes } from './archive.ts'
import { followInbox, readInbox } from '../inbox.ts'
import { renderApprovals, renderInbox, renderRequest, renderState, renderWaiting } from './boundary.render.ts'

type Json = { readonly json?: boolean }
const gather = (value: string, before: readonly string[] = []) => [...before, value]

function parseBoundary(text: string): BoundaryLevel {
  const level = boundaryLevels.find((known) => known === text)
  if (level !== undefined) return level
  throw new OrangeryError('usage.boundary', `${text}: not a boundary`, {
    kind: 'usage',
    hint: `Boundaries are ${boundaryLevels.join(', ')}.`,
  })
}

async function show(id: string, options: Json) {
  const state = await withClient((client) => client.call('boundary.show', { id }))
  if (options.json) printJson(state)
  else print(renderState(state))
}

function report(requests: readonly BoundaryRequest[], options: Json) {
  if (options.json) printJson(requests)
  else print(requests.map((request) => renderRequest(request)).join('\n'))
}

type RequestOptions = Json & {
  readonly reason: string
  readonly host?: readonly string[]
  readonly wait?: string
}

async function request(id: string, level: string, options: RequestOptions) {
  const to = parseBoundary(level)
  const seconds = options.wait === undefined ? 0 : Number(options.wait)
  if (!Number.isFinite(seconds) || seconds < 0 || seconds > 3600) {
    throw new OrangeryError('usage.wait', `--wait ${options.wait}: not a number of seconds`, {
      kind: 'usage',
      hint: 'It takes 0 to 3600.',
    })
  }
  const input = { id, to, hosts: [...(options.host ?? [])], reason: options.reason, wait_s: seconds }
  const filed = await withClient((client) => client.call('boundary.request', input))
  if (options.json) printJson(filed)
  else print(renderRequest(filed))
}

const saveScopes: Readonly<Record<string, ApprovalScope>> = { task: 'task', project: 'project', user: 'user' }

function parseScope(save: string | undefined): ApprovalScope {
  if (save === undefined) return 'once'
  const scope = saveScopes[save]
  if (scope !== undefined) return scope
  throw new OrangeryError('usage.save', `--save ${save}: not a place to save to`, {
    kind: 'usage',
    hint: 'It takes task, project or user; without it the approval holds for this run only.',
  })
}

const spans: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** `30d` from now, a day, or a moment. */
function parseExpiry(text: string | undefined, now: number = Date.now()): string | undefined {
  if (text === undefined) return undefined
  const span = /^(\d{1,4})([mhdw])$/.exec(text)
  const moment = /^\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2}))?$/.test(text) ? Date.parse(text) : NaN
  const at = span === null ? moment : now + Number(span[1]) * (spans[span[2] ?? ''] ?? NaN)
  if (!Number.isNaN(at)) return new Date(at).toISOString()
  throw new OrangeryError('usage.expires', `--expires ${text}: not a time`, {
    kind: 'usage',
    hint: 'Write 12h, 30d or 8w from now, a day such as 2027-01-31, or 2027-01-31T18:00:00Z.',
  })
}

type AnswerOptions = Json & { readonly request?: string; readonly message?: string }
const answerInput = (id: string, { request: only, message = '' }: AnswerOptions) => ({
  id,
  message,
  ...(only === undefined ? {} : { request: only }),
})

type ApproveOptions = AnswerOptions & {
  readonly save?: string
  readonly expires?: string
  readonly root?: readonly string[]
}

async function approve(id: string, options: ApproveOptions) {
  const scope = parseScope(options.save)
  const expires = parseExpiry(options.expires)
  const roots = options.root?.map((folder) => resolve(folder))
  const lasting = expires !== undefined ? 'expires' : roots !== undefined ? 'root' : null
  if (lasting !== null && scope !== 'project' && scope !== 'user') {
    const why = lasting === 'expires' ? 'has an end' : 'names folders'
    throw new OrangeryError(`usage.${lasting}`, `--${lasting}: only what is saved ${why}`, {
      kind: 'usage',
      hint: 'Add --save project or --save user.',
    })
  }
  const input = {
    ...answerInput(id, options),
    scope,
    ...(expires === undefined ? {} : { expires }),
    ...(roots === undefined ? {} : { roots }),
  }
  await withClient(async (client) => {
    const approved = await client.call('boundary.approve', input)
    const { history, requests } = await client.call('boundary.show', { id })
    if (options.json) printJson(approved)
    else print(approved.map((wish) => renderRequest(wish, levelBefore(history, wish))).join('\n'))
    if (!options.json && (scope === 'project' || scope === 'user')) {
      const { phase } = await client.call('dispatch.get', { id })
      if (isReadingPhase(phase)) print(`saved for the phase ${phase}: in others the same is asked again`)
    }
    printNotes(approved.filter((wish) => opensEveryHost(levelBefore(history, wish), wish)).map(whatFullGives))
    const left = requests.filter(({ status }) => status === 'open')
    if (options.request === undefined) printNotes(left.map(whyLeft))
  })
}

/** What held when a request was granted. */
const levelBefore = (history: BoundaryState['history'], { id }: BoundaryRequest): BoundaryLevel | null =>
  history.findLast(({ request: granted }) => granted?.split(',').includes(id))?.from ?? null

/** Said aloud, since it may be among several that were answered at once. */
const whatFullGives = ({ id }: BoundaryRequest): string =>
  `request ${id} was for full: from now on it reaches any public host that nothing denies (a child what its contract names)`

const whyLeft = ({ id, to, hosts }: BoundaryRequest): string =>
  `request ${id} (${[to, ...hosts].join(' ')}) stays open: nobody can grant it now; --request ${id} says why`

async function deny(id: string, options: AnswerOptions) {
  report(await withClient((client) => client.call('boundary.deny', answerInput(id, options))), options)
}

type NarrowOptions = Json & { readonly reason?: string; readonly host?: readonly string[] }

async function narrow(id: string, level: string | undefined, options: NarrowOptions) {
  const { host: hosts = [], reason = '' } = options
  if (level === undefined && hosts.length === 0) {
    throw new OrangeryError('usage.narrow', `narrow ${id}: to what is missing`, {
      kind: 'usage',
      hint: `Name a boundary (${boundaryLevels.join(', ')}), or a host to take back with --host.`,
    })
  }
  const input = {
    id,
    ...(level === undefined ? {} : { to: parseBoundary(level) }),
    hosts: [...hosts],
    reason,
  }
  const [before, state] = await withClient(
    async (client) =>
      [await client.call('boundary.show', { id }), await client.call('boundary.narrow', input)] as const,
  )
  if (options.json) return printJson(state)
  print(renderState(state))
  print(`takes back: ${takenBack(before, state)}`)
}

/** What is gone now. What a contract names itself goes only host by host. */
function takenBack(before: BoundaryState, after: BoundaryState): string {
  const rank = ({ level }: BoundaryState) => (level === null ? 0 : boundaryRank(level))
  const leaves = (level: BoundaryLevel) =>
    rank(before) >= boundaryRank(level) && rank(after) < boundaryRank(level)
  const gone = [
    ...before.hosts.filter((host) => !after.hosts.includes(host)),
    ...after.taken.filter((host) => !before.taken.includes(host)),
  ]
  const parts = [
    ...(leaves('readwrite') ? ['writing'] : []),
    ...(leaves('network')
      ? ['the hosts of its boundary']
      : leaves('full')
        ? ['hosts beyond those named']
        : []),
    ...(gone.length === 0 ? [] : [`hosts ${[...new Set(gone)].join(', ')}`]),
  ]
  if (parts.length > 0) return parts.join(', ')
  return rank(after) < boundaryRank('network') && before.history.length < after.history.length
    ? 'hosts that its contract opened over read-only files, if there were any'
    : 'nothing: it had no more than that'
}

async function inbox({ json = false, follow = false }: Json & { readonly follow?: boolean }) {
  await withClient(async (client) => {
    if (follow) {
      for await (const waiting of followInbox(client)) {
        if (json) printJsonLine(waiting.request)
        else print(renderWaiting(waiting))
      }
    } else if (json) printJson(await client.call('boundary.inbox', {}))
    else print(renderInbox(await readInbox(client)))
  })
}

type Places = Json & { readonly dir?: readonly string[] }
const rootsOf = ({ dir }: Places): string[] => (dir ?? ['.']).map((folder) => resolve(folder))

async function listApprovals(options: Places) {
  const approvals = await withClient((client) =>
    client.call('boundary.approvals', { roots: rootsOf(options) }),
  )
  if (options.json) printJson([...approvals.saved, ...approvals.tasks])
  else print(renderApprovals(approvals))
}

async function revoke(approval: string, options: Places) {
  const input = { approval, roots: rootsOf(options) }
  const { removed } = await withClient((client) => client.call('boundary.revoke', input))
  if (options.json) printJson({ approval, removed })
  else {
    print(`${approval} is revoked (${removed.join(', ')})`)
    print('running agents keep what it gave them: `orangery boundary narrow` takes that back')
  }
}

export function registerBoundary(program: Command): void {
  const boundary = program
    .command('boundary')
    .summary('what a running agent may do: show, request, approve, deny, narrow')
    .helpCommand(false)
    .description('What a running agent may do now: readonly, readwrite, network or full.')

  boundary
    .command('show <id>')
    .summary('its boundary, how it came to it, and what is asked for')
    .description('Shows the boundary of a dispatch, how it came to it, and what it asks for.')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery boundary show 20260128')
    .action(show)

  boundary
    .command('request <id> <level>')
    .summary('ask for a wider boundary')
    .description('Asks for a wider boundary. A saved approval answers at once; otherwise a person does.')
    .requiredOption('--reason <text>', 'why it is needed')
    .option('--host <host[:port]>', 'host it needs to reach, or a preset such as @npm; repeatable', gather)
    .option('--wait <seconds>', 'wait this long for the answer')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExample:\n  orangery boundary request 20260128 network --host registry.example.com:443 --reason "npm install"',
    )
    .action(request)

  boundary
    .command('approve <id>')
    .summary('say yes to what it asks for')
    .description(
      'Approves all open requests of a dispatch, also those for full, or the one that is named. The running agent goes on with what it got.',
    )
    .option('--request <request>', 'only this one')
    .option('--save <where>', 'also next time: task, project or user (default: this run only)')
    .option('--root <folder>', 'what is saved covers only this folder; repeatable (default: all)', gather)
    .option('--expires <when>', 'what is saved ends then: 12h, 30d, 8w, or a day such as 2027-01-31')
    .option('--message <text>', 'what the agent is told')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery boundary approve 20260128 --save project --expires 30d')
    .action(approve)

  boundary
    .command('deny <id>')
    .summary('say no to what it asks for')
    .description('Denies all open requests of a dispatch, or one.')
    .option('--request <request>', 'only this one')
    .option('--message <text>', 'what the agent is told')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery boundary deny 20260128 --message "use the mirror"')
    .action(deny)

  boundary
    .command('narrow <id> [level]')
    .summary('take rights back from a running agent')
    .description(
      'Takes rights back: a lower boundary, the same one without the hosts that were granted, or single hosts, whoever allows them.',
    )
    .option(
      '--host <host[:port]>',
      'take back this host, *.HOST or a preset such as @npm, and leave the rest; repeatable',
      gather,
    )
    .option('--reason <text>', 'why, for the record')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  orangery boundary narrow 20260128 readonly\n  orangery boundary narrow 20260128 --host telemetry.example.com',
    )
    .action(narrow)

  boundary
    .command('inbox')
    .summary('everything that waits for you')
    .description('Lists the open requests of all dispatches, oldest first.')
    .option('-f, --follow', 'go on, and print each request as it comes')
    .option('--json', 'print JSON; with --follow one object a line')
    .addHelpText('after', '\nExample:\n  orangery boundary inbox --follow')
    .action(inbox)

  const approvals = boundary
    .command('approvals')
    .summary('saved approvals: list, revoke')
    .helpCommand(false)
    .description('Approvals that answer without asking: of your config, of a project, of a task.')
  approvals
    .command('list')
    .summary('what is approved already')
    .description(
      'Lists the approvals that hold for a folder, those of yours that hold for others only, and those of tasks.',
    )
    .option('--dir <folder>', 'for dispatches on this folder; repeatable (default: this folder)', gather)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery boundary approvals list')
    .action(listApprovals)
  approvals
    .command('revoke <approval>')
    .summary('take one back')
    .description(
      'Takes an approval, named by the beginning of its id, out of every file that holds it. A running agent keeps what it has.',
    )
    .option('--dir <folder>', 'project it was saved to; repeatable (default: this folder)', gather)
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  orangery boundary approvals revoke 3f9c2a7710bd')
    .action(revoke)
}
