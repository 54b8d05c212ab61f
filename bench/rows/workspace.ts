import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { git } from '../../src/engine/base/git.ts'
import { layout as layoutAt } from '../../src/engine/base/paths.ts'
import { run } from '../../src/engine/base/process.ts'
import { claimWorkspace, identifyProject, prepareWorkspace } from '../../src/engine/workspace/index.ts'
import { isTerminal } from '../../src/shared/dispatch.ts'
import { makeDispatchId } from '../../src/shared/ids.ts'
import { NotHere, type Contender, type Row } from '../row.ts'
import { benchFolder, tree } from '../trees.ts'
import { warmEngine } from '../warmEngine.ts'

const perSample = 21

/** In namespaces of its own, as a holder does it: mounts the layers and looks a file up through them. */
const mountAndLook =
  'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3,userxattr,index=off,xino=off" "$4" && test -e "$4/d0/d0/file0.txt"'

/** From the folder's name to a mounted workspace in which a file was found: project, record, layers, claim, mount. */
async function readied(root: string, name: string, rounds = perSample): Promise<Contender> {
  const folder = await mkdtemp(join(await benchFolder(), 'workspaces-'))
  const layout = layoutAt(folder)
  const seen = join(folder, 'seen')
  await mkdir(seen)
  const taken = new Set<string>()
  const freshId = () => {
    for (;;) {
      const id = makeDispatchId(new Date(), randomBytes(2))
      if (!taken.has(id)) return taken.add(id) && id
    }
  }
  return {
    name,
    async sample() {
      const times: number[] = []
      for (let count = 0; count < rounds; count += 1) {
        const started = performance.now()
        const workspace = await prepareWorkspace({
          id: freshId(),
          project: await identifyProject([root]),
          strategy: 'overlay',
          driver: 'kernel-overlay',
          layout,
          name: null,
          runner: 'command',
          mode: 'headless',
        })
        await using _claim = await claimWorkspace(layout, workspace)
        const mount = workspace.roots[0]?.mount
        if (mount?.kind !== 'overlay') throw new Error('not an overlay')
        const { lower, upper, work } = mount
        const mounted = await run('unshare', [
          '-Urm',
          'sh',
          '-c',
          mountAndLook,
          'sh',
          lower,
          upper,
          work,
          seen,
        ])
        if (mounted.code !== 0) throw new NotHere(`no overlay here: ${mounted.stderr.toString().trim()}`)
        times.push(performance.now() - started)
      }
      // The quickest: what else the machine does meanwhile is not the cost of a workspace.
      return Math.min(...times)
    },
  }
}

const ready: Row = {
  name: 'overlay workspace ready, tree of 200,000 files',
  samples: 9,
  async prepare() {
    return {
      subject: await readied(await tree(200_000), 'orangery, 200,000 files'),
      peers: [await readied(await tree(10), 'orangery, 10 files')],
      limits: [{ against: 'orangery, 10 files', atMost: 1.2 }],
    }
  },
}

async function worktreeAdd(root: string): Promise<Contender> {
  const folder = await mkdtemp(join(await benchFolder(), 'worktree-'))
  const target = join(folder, 'tree')
  return {
    name: 'git worktree add',
    sample: async () => void (await git(['worktree', 'add', '-q', '--detach', target], { cwd: root })),
    reset: async () => void (await git(['worktree', 'remove', '--force', target], { cwd: root })),
  }
}

const against: Row = {
  name: 'overlay workspace ready, against a worktree of the same 200,000 files',
  // Each of git's writes 200,000 files, and removes them again.
  samples: 2,
  warmups: 0,
  async prepare() {
    const root = await tree(200_000)
    return {
      // Once a sample, as git's: the same figure of both.
      subject: await readied(root, 'orangery', 1),
      peers: [await worktreeAdd(root)],
      limits: [{ against: 'git worktree add', atMost: 1 / 50 }],
    }
  },
}

const agents = 10
const written = 1024 * 1024

async function bytesIn(folder: string): Promise<number> {
  const counted = await run('du', ['-s', '--block-size=1', folder])
  return Number(counted.stdout.toString().split('\t')[0])
}

/** Lets ten agents write 1 MB each that cannot be compressed, and counts disk. */
const diskOfTen = (
  what: string,
  name: string,
  atMost: number,
  count: (dataDir: string, sandboxes: readonly string[]) => Promise<number>,
): Row => ({
  name,
  unit: 'MB',
  samples: 2,
  warmups: 0,
  async prepare(scope) {
    const root = await tree(200_000)
    const engine = await warmEngine(scope)
    let before = 0
    return {
      subject: {
        name: what,
        async sample() {
          const ids: string[] = []
          for (let agent = 0; agent < agents; agent += 1) {
            const { id } = await engine.client.call('dispatch.spawn', {
              command: ['sh', '-c', `head -c ${written} /dev/urandom > written-${agent}.bin`],
              roots: [root],
            })
            ids.push(id)
          }
          for (const id of ids) {
            while (!isTerminal((await engine.client.call('dispatch.get', { id })).status)) await sleep(50)
          }
          const own = (await engine.client.call('agent.list', {})).flatMap(({ id, meta }) =>
            meta !== null && ids.includes(id) ? [meta.sandbox_path] : [],
          )
          // A sandbox lies four folders deep in the data folder.
          const counted = await count(resolve(own[0] ?? '/', '..', '..', '..', '..'), own)
          const grown = counted - before
          if (what === dataFolder) before = counted
          return grown / 1024 / 1024
        },
      },
      peers: [{ name: 'what they wrote', sample: async () => (agents * written) / 1024 / 1024 }],
      limits: [{ against: 'what they wrote', atMost }],
    }
  },
})
const dataFolder = 'the whole data folder'

const disk = diskOfTen(
  'ten workspaces',
  'disk of ten workspaces on 200,000 files that wrote 1 MB each, against what they wrote',
  1.2,
  async (_dataDir, sandboxes) => {
    let total = 0
    for (const sandbox of sandboxes) total += await bytesIn(sandbox)
    return total
  },
)

/** Until it is decided on, what was written is there twice: as the agent's layer, and as what is reviewed. */
const diskInAll = diskOfTen(
  dataFolder,
  'disk of the whole data folder after ten agents on 200,000 files wrote 1 MB each, against what they wrote',
  2.5,
  bytesIn,
)

export const rows = [ready, against, disk, diskInAll]
