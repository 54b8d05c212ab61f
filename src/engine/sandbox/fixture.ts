import { closeSync, existsSync, openSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { DispatchId, RepoId } from '../../shared/ids.ts'
import { makeDispatchId } from '../../shared/ids.ts'
import { randomBytes } from 'node:crypto'
import type { RunningSandbox, SandboxEnd, SandboxRequest } from '../base/sandbox.ts'
import type { WorkspaceRoot } from '../base/workspace.ts'
import { removeTree } from '../workspace/end/removeTree.ts'
import { startSandbox } from './holder/start.ts'
import { detectHost, type HostFacts } from './host/host.ts'
import { planSandbox } from './plan/plan.ts'

/** A project, a data folder and a home in one throw-away folder: real ones, for tests and the bench. */
export type Ground = AsyncDisposable & {
  readonly folder: string
  /** Part of every path of it and of nothing else on this machine. */
  readonly marker: string
  readonly dataDir: string
  readonly root: string
  readonly upper: string
  readonly home: string
  /** Leaves a file in the agent's home, as a sign to a script inside. */
  writeHome(name: string): Promise<void>
  /** Waits until a script inside left a file in its home, with that content if one is given. */
  waitForHome(name: string, content?: string): Promise<void>
  request(command: readonly [string, ...string[]], changes?: Partial<SandboxRequest>): SandboxRequest
}

export async function makeGround(name = 'project', parent = tmpdir()): Promise<Ground> {
  const folder = await mkdtemp(join(parent, 'orangery-ground-'))
  const dataDir = join(folder, 'data')
  const root = join(folder, name)
  const id: DispatchId = makeDispatchId(new Date(), randomBytes(2))
  const dir = join(dataDir, 'repos', '0123456789abcdef', 'sandboxes', id)
  const layers = join(dir, 'roots', 'project')
  const home = join(dir, 'home')
  for (const path of [root, join(layers, 'upper'), join(layers, 'work'), home]) {
    await mkdir(path, { recursive: true })
  }
  await writeFile(join(root, 'README.md'), 'original\n')
  const projectRoot: WorkspaceRoot = {
    path: root,
    target: root,
    name: 'project',
    role: 'project',
    access: 'rw',
    mount: { kind: 'overlay', lower: root, upper: join(layers, 'upper'), work: join(layers, 'work') },
  }
  return {
    folder,
    marker: basename(folder),
    dataDir,
    root,
    upper: join(layers, 'upper'),
    home,
    writeHome: (name) => writeFile(join(home, name), ''),
    async waitForHome(name, content) {
      for (let round = 0; round < 2000; round++) {
        const text = await readFile(join(home, name), 'utf8').catch(() => null)
        if (text !== null && (content === undefined || text === content)) return
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      throw new Error(`nothing came of ${name}`)
    },
    request: (command, changes = {}) => ({
      id,
      level: 1,
      workspace: {
        id,
        repoId: '0123456789abcdef' as RepoId,
        strategy: 'overlay',
        driver: 'kernel-overlay',
        dir,
        roots: [projectRoot],
        createdAtMs: Date.now(),
      },
      command,
      cwd: root,
      env: {},
      files: 'rw',
      writableFiles: [],
      network: 'none',
      limits: {},
      grants: [],
      home,
      hide: [],
      secretDirs: [dataDir],
      terminal: false,
      ...changes,
    }),
    async [Symbol.asyncDispose]() {
      await endOfHolders(folder)
      // A test may have closed a folder of it, and an overlay closes its `work/work`.
      await removeTree(folder)
    },
  }
}

/**
 * For `beforeAll`: tells the host as it is. What it found stands in a data folder, where sandboxes make layers, and goes
 * when the last test of the file has ended.
 */
export async function lookAtHost(tell: (host: HostFacts) => void): Promise<() => Promise<void>> {
  const ground = await makeGround()
  tell(await detectHost(ground.dataDir))
  return async () => ground[Symbol.asyncDispose]()
}

/**
 * A holder that was killed while it mounted may still make the folder it was about to mount on, in what has been
 * removed just before: its command line names the layers it is to mount.
 */
async function endOfHolders(folder: string): Promise<void> {
  const isThere = async () => {
    const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
    const lines = await Promise.all(
      pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')),
    )
    return lines.some((line) => line.includes('\0orangery-holder\0') && line.includes(folder))
  }
  for (let round = 0; round < 50 && (await isThere()); round++)
    await new Promise((resolve) => setTimeout(resolve, 20))
}

// In a system folder only tests have such names: in /opt, and with a dot before it in /etc.
const isOfTest = (path: string) => /^\/(?:opt\/|etc\/\.)orangery-/.test(path)

/** A host as it was looked at, without the places of tests beside this one that have gone since. */
export const asItIs = (host: HostFacts): HostFacts => ({
  ...host,
  secretPaths: host.secretPaths.filter(({ path }) => !isOfTest(path) || existsSync(path)),
})

/** Those that two looks find alike, whatever tests beside this one do between them. */
export const steadySecrets = ({ secretPaths }: HostFacts, folder: string): HostFacts['secretPaths'] =>
  secretPaths.filter(({ path }) => !isOfTest(path) || path.startsWith(folder))

export type Outcome = SandboxEnd & { readonly stdout: string; readonly stderr: string }

/** Starts a sandbox with its output in files, so that nothing a test does can fill a pipe. */
export async function startOn(
  ground: Ground,
  request: SandboxRequest,
  host: HostFacts,
): Promise<{ readonly sandbox: RunningSandbox; finish(): Promise<Outcome> }> {
  const tag = randomBytes(4).toString('hex')
  const paths = { stdout: join(ground.folder, `out-${tag}`), stderr: join(ground.folder, `err-${tag}`) }
  // At once: on a busy machine each trip to the thread pool would count as the sandbox's own time in the bench.
  const stdout = openSync(paths.stdout, 'w')
  const stderr = openSync(paths.stderr, 'w')
  try {
    const sandbox = await startSandbox(planSandbox(request, asItIs(host)), {
      stdin: 'ignore',
      stdout,
      stderr,
    })
    return {
      sandbox,
      async finish() {
        const end = await sandbox.ended
        const [out, err] = await Promise.all([readFile(paths.stdout, 'utf8'), readFile(paths.stderr, 'utf8')])
        return { ...end, stdout: out, stderr: err }
      },
    }
  } finally {
    closeSync(stdout)
    closeSync(stderr)
  }
}

/** Runs a shell line in a sandbox to its end. */
export async function runIn(
  ground: Ground,
  host: HostFacts,
  script: string,
  changes: Partial<SandboxRequest> = {},
): Promise<Outcome> {
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script], changes), host)
  sandbox.release()
  return finish()
}
