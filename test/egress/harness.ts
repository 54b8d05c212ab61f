import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { once } from 'node:events'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { nameServer, proxyPort } from '../../src/engine/base/sandbox.ts'
import {
  aliasesFor,
  hostsFile,
  parseOutputs,
  proxyEnvironment,
  startBroker,
  type Broker,
  type BrokerOptions,
  type Decided,
} from '../../src/engine/egress/index.ts'

const relayProgram = resolve(import.meta.dirname, '../../src/engine/egress/line/relay.main.ts')

export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** A network namespace with only its own loopback, a relay in it and the broker outside: the real chain but for bubblewrap. */
export interface Cell extends AsyncDisposable {
  readonly dir: string
  readonly decisions: Decided[]
  readonly broker: Broker
  readonly relay: ChildProcess
  readonly proxy: string
  setOutputs(outputs: Parameters<typeof parseOutputs>[0]): Promise<void>
  run(command: readonly string[], options?: RunOptions): Promise<Ran>
  start(command: readonly string[], env?: Record<string, string>): ChildProcess
}

type RunOptions = {
  env?: Record<string, string>
  input?: string
  proxied?: boolean
  timeoutMs?: number
  cwd?: string
}
type CellOptions = Partial<Omit<BrokerOptions, 'policy' | 'socketPath'>> & { relay?: boolean; ipc?: boolean }

export async function makeCell(
  outputs: Parameters<typeof parseOutputs>[0],
  options: CellOptions = {},
): Promise<Cell> {
  const dir = await mkdtemp('/tmp/egress-cell-')
  const hosts = join(dir, 'hosts')
  const socketPath = join(dir, 'broker.sock')
  const decisions: Decided[] = []
  const policy = parseOutputs(outputs)
  await writeFile(hosts, hostsFile(aliasesFor(policy)))
  const nameServers = join(dir, 'resolv.conf')
  await writeFile(nameServers, `nameserver ${nameServer}\noptions timeout:5 attempts:4\n`)
  const broker = await startBroker({
    ...options,
    socketPath,
    policy,
    onDecision: (decided) => {
      decisions.push(decided)
      options.onDecision?.(decided)
    },
  })
  const holder = spawn(
    'unshare',
    [
      '-Urmn',
      '--kill-child=KILL',
      'sh',
      '-c',
      'ip link set lo up && mount --bind "$0" /etc/hosts && mount --bind "$1" /etc/resolv.conf && echo ready && exec cat',
      hosts,
      nameServers,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  await once(holder.stdout, 'data')
  const enter = ['-t', String(holder.pid), '-U', '-n', '--preserve-credentials']
  const settings = { broker: socketPath, proxyPort, aliases: aliasesFor(policy) }
  const relay = spawn('nsenter', [...enter, process.execPath, relayProgram, JSON.stringify(settings)], {
    stdio: ['pipe', 'pipe', 'inherit', ...(options.ipc === false ? [] : (['ipc'] as const))],
  }) as ChildProcessByStdio<Writable, Readable, null>
  broker.adopt(relay)
  if (options.relay !== false) await once(relay.stdout, 'data')
  const start = (command: readonly string[], env: Record<string, string> = {}) =>
    spawn('nsenter', [...enter, '-m', ...command], {
      env: baseEnv(dir, env),
      stdio: ['pipe', 'pipe', 'pipe'],
    })

  return {
    dir,
    decisions,
    broker,
    relay,
    proxy: `http://127.0.0.1:${proxyPort}`,
    async setOutputs(next) {
      const changed = parseOutputs(next)
      broker.setPolicy(changed)
      const file = await open(hosts, 'r+')
      const text = Buffer.from(hostsFile(aliasesFor(changed)))
      await file.write(text, 0, text.length, 0)
      await file.truncate(text.length)
      await file.close()
      const updated = once(relay.stdout, 'data')
      relay.stdin.write(`${JSON.stringify(aliasesFor(changed))}\n`)
      await updated
    },
    start,
    run(command, { env = {}, input = '', proxied = true, timeoutMs = 60_000, cwd } = {}) {
      return new Promise((done) => {
        const wanted = { ...(proxied ? proxyEnvironment(proxyPort) : {}), ...env }
        const args = [...enter, '-m', 'sh', '-c', 'cd "$0" && exec "$@"', cwd ?? dir, ...command]
        const child = spawn('nsenter', args, {
          env: baseEnv(dir, wanted),
          stdio: ['pipe', 'pipe', 'pipe'],
          timeout: timeoutMs,
          killSignal: 'SIGKILL',
        })
        let stdout = ''
        let stderr = ''
        child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
        child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
        child.on('close', (code) => done({ code, stdout, stderr }))
        child.stdin.on('error', () => {})
        child.stdin.end(input)
      })
    },
    async [Symbol.asyncDispose]() {
      relay.stdin.end()
      await broker.close()
      holder.kill('SIGKILL')
      if (relay.exitCode === null && relay.signalCode === null) await once(relay, 'exit')
      await rm(dir, { recursive: true, force: true })
    },
  }
}

const baseEnv = (dir: string, env: Record<string, string>): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '/usr/bin:/bin',
  HOME: dir,
  LANG: 'C.UTF-8',
  ...env,
})
