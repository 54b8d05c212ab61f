import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** What a container is shown of the host, and what runs in it. */
export type Contents = {
  readonly mounts: readonly { readonly from: string; readonly to: string; readonly writable?: boolean }[]
  readonly environment: Readonly<Record<string, string>>
  readonly command: readonly string[]
  /** `none` but for a control. */
  readonly network: 'none' | 'host'
  /** In place of the few rights that it is given otherwise, and of a root that is read-only. */
  readonly options?: readonly string[]
}

export type Started = AsyncDisposable & { readonly child: ChildProcess; text(): string }
export type Engine = AsyncDisposable & { start(contents: Contents): Promise<Started> }
export const engines = ['bubblewrap', 'podman', 'docker'] as const

/** An engine with an image to start from, or why there is none here. */
export async function openEngine(name: (typeof engines)[number]): Promise<Engine | string> {
  if (name === 'bubblewrap') return bubblewrap
  const dir = await mkdtemp('/tmp/orangery-engine-')
  const engine = await openContainerEngine(name, dir)
  if (typeof engine === 'string') await removeKept(dir)
  return engine
}

const bubblewrap: Engine = {
  async start({ mounts, environment, command, network }) {
    const view = '--symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64'
    const own =
      '--unshare-all --die-with-parent --new-session --clearenv --proc /proc --dev /dev --tmpfs /tmp'
    const user = '--uid 0 --gid 0 --cap-drop ALL --cap-add CAP_NET_BIND_SERVICE'
    const args = [
      ...[view, own, user].flatMap((options) => options.split(' ')),
      ...(network === 'host' ? ['--share-net'] : []),
      ...mounts.flatMap(({ from, to, writable }) => [writable === true ? '--bind' : '--ro-bind', from, to]),
      ...Object.entries(environment).flatMap((pair) => ['--setenv', ...pair]),
      '--',
      ...command,
    ]
    return started(spawn('bwrap', args, { stdio: ['pipe', 'pipe', 'inherit'] }))
  },
  async [Symbol.asyncDispose]() {},
}

const fewRights = '--cap-drop ALL --cap-add NET_BIND_SERVICE --cap-add DAC_OVERRIDE'.split(' ')
const closed = '--security-opt no-new-privileges --security-opt label=disable --read-only'.split(' ')

/** Podman's own idea of limits may be more than whoever starts it is allowed. */
const modestLimits = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096']

async function openContainerEngine(name: 'podman' | 'docker', dir: string): Promise<Engine | string> {
  // Images and containers of its own, where the engine has no daemon: nothing of the user's is touched.
  const own = ['root', 'runroot', 'tmpdir'].flatMap((option) => [`--${option}`, join(dir, option)])
  const global = name === 'podman' ? [...own, '--cgroup-manager=cgroupfs', '--events-backend=file'] : []
  const daemon = name === 'docker' ? await ownDaemon(dir) : undefined
  const env = { ...process.env, ...daemon?.environment }
  const engine = (...args: string[]) => execute(name, [...global, ...args], { env })
  const image = `orangery-test-${process.pid}`
  const argumentsFor = (
    { mounts, environment, command, network, options = [...fewRights, ...closed] }: Contents,
    container: string,
  ) => {
    return [
      'run',
      '--rm',
      '-i',
      '--name',
      container,
      '--network',
      network,
      ...options,
      ...(name === 'podman' ? modestLimits : []),
      ...mounts.flatMap(({ from, to, writable }) => [
        '-v',
        `${from}:${to}:${writable === true ? 'rw' : 'ro'}`,
      ]),
      ...Object.entries(environment).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
      image,
      ...command,
    ]
  }
  try {
    await engine('info')
    await importImage(dir, (archive) => engine('import', archive, image))
    const nothing = { mounts: [{ from: '/usr', to: '/usr' }], environment: {}, command: ['/usr/bin/true'] }
    await engine(...argumentsFor({ ...nothing, network: 'none' }, `${image}-first`))
  } catch (error) {
    await daemon?.stop()
    const { code, stderr } = error as { code?: string | number; stderr?: string }
    return code === 'ENOENT'
      ? `no ${name} on this machine`
      : `${name} does not work here: ${stderr?.trim().split('\n').at(-1)}`
  }
  let count = 0
  return {
    async start(contents) {
      const container = `${image}-${++count}`
      const args = [...global, ...argumentsFor(contents, container)]
      const child = spawn(name, args, { env, stdio: ['pipe', 'pipe', 'inherit'] })
      return started(child, () => engine('kill', container))
    },
    async [Symbol.asyncDispose]() {
      await engine('rmi', '--force', image).catch(() => {})
      await daemon?.stop()
      await removeKept(dir)
    },
  }
}

type Daemon = { readonly environment: NodeJS.ProcessEnv; stop(): Promise<void> }

/** A daemon of ours, with everything it keeps in this folder, where Docker is installed and none runs that we may ask. */
async function ownDaemon(dir: string): Promise<Daemon | undefined> {
  const answers = await execute('docker', ['info', '--format', '{{.ServerVersion}}']).catch(() => null)
  if ((answers?.stdout.trim() ?? '') !== '' || process.getuid?.() !== 0) return undefined
  const socket = `unix://${join(dir, 'docker.sock')}`
  const keeps = ['data-root', 'exec-root', 'pidfile'].map((option) => `--${option}=${join(dir, option)}`)
  const network = ['--bridge=none', '--iptables=false', '--ip6tables=false']
  const child = spawn('dockerd', [`--host=${socket}`, ...keeps, ...network], { stdio: 'ignore' })
  const ended = new Promise<void>((resolve) =>
    child.once('close', () => resolve()).once('error', () => resolve()),
  )
  const environment = { DOCKER_HOST: socket }
  const isUp = () =>
    execute('docker', ['info'], { env: { ...process.env, ...environment } }).then(
      () => true,
      () => false,
    )
  const until = Date.now() + 20_000
  while (child.exitCode === null && child.pid !== undefined && Date.now() < until && !(await isUp()))
    await setTimeout(200)
  return {
    environment,
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** Engines leave mounts behind in what they keep. */
async function removeKept(dir: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
  for (const mount of mounts.filter((path) => path.startsWith(`${dir}/`)).toReversed())
    await execute('umount', [mount])
  await rm(dir, { recursive: true, force: true })
}

/** Folders to mount the host's programs at, and nothing else. */
async function importImage(dir: string, take: (archive: string) => Promise<unknown>): Promise<void> {
  const root = join(dir, 'image')
  for (const folder of ['usr', 'etc', 'run', 'tmp', 'proc', 'dev', 'sys'])
    await mkdir(join(root, folder), { recursive: true })
  for (const folder of ['bin', 'sbin', 'lib', 'lib64']) await symlink(`usr/${folder}`, join(root, folder))
  const archive = join(dir, 'image.tar')
  await execute('tar', ['-cf', archive, '-C', root, '.'])
  await take(archive)
}

function started(child: ChildProcess, remove: () => Promise<unknown> = async () => {}): Started {
  let text = ''
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()))
  const ended = once(child, 'close')
  return {
    child,
    text: () => text,
    async [Symbol.asyncDispose]() {
      await remove().catch(() => {})
      child.kill('SIGKILL')
      await ended
    },
  }
}
