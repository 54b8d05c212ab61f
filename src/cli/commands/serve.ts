import { spawn } from 'node:child_process'
import type { Command } from 'commander'
import { exitCodes, OrangeryError } from '../../shared/errors.ts'
import { onUnexpected, openEngine } from '../connect.ts'
import { noteOrphans } from './archive.ts'
import { print, printJsonLine } from '../terminal/print.ts'

type ServeOptions = { readonly port?: string; readonly open?: boolean; readonly json?: boolean }

function parsePort(text: string | undefined): number {
  if (text === undefined) return 0
  const port = Number(text)
  if (/^\d+$/.test(text) && port <= 65_535) return port
  throw new OrangeryError('usage.port', `--port ${text}: not a port`, {
    kind: 'usage',
    hint: 'A port is a number from 0 (any free one) to 65535.',
  })
}

function openInBrowser(url: string): void {
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open'
  // Where there is no browser to open, the address on the screen has to do.
  spawn(opener, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
}

const closePatienceMs = 5000

/**
 * Signals stay caught until the end: a terminal and whoever started us may both send one, and the second must
 * not cut the tidying short. `npm start` keeps a channel open, so that its death is told as well.
 */
function untilStopped(): Promise<void> {
  return new Promise((resolve) => {
    const stop = () => {
      setTimeout(() => process.exit(exitCodes.internal), closePatienceMs).unref()
      resolve()
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
    process.once('disconnect', stop)
    process.channel?.unref()
  })
}

async function serveWindow(options: ServeOptions): Promise<void> {
  const port = parsePort(options.port)
  const stopped = untilStopped()
  await using scope = new AsyncDisposableStack()
  const engine = scope.use(await openEngine('browser'))
  await engine.offerToCommandLines()
  const { serve } = await import('../../serve/index.ts')
  const serving = scope.adopt(await serve({ engine, port, onUnexpected }), (server) => server.close())
  if (options.json) printJsonLine({ url: serving.url, port: serving.port })
  else print(`Orangery is at ${serving.url}\nCtrl-C ends it; agents that run go on.`)
  await noteOrphans(engine.client)
  if (options.open) openInBrowser(serving.url)
  await stopped
}

export function registerServe(program: Command): void {
  program
    .command('serve')
    .summary('the window in a browser')
    .description('Serves the window on loopback, behind a secret that works once, until it is stopped.')
    .option('--port <n>', 'port to listen on (default: any free one)')
    .option('--open', 'open it in the browser')
    .option('--json', 'print the address as JSON')
    .addHelpText('after', '\nExample:\n  orangery serve --port 8484')
    .action(serveWindow)
}
