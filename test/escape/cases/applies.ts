import { spawn } from 'node:child_process'
import { chmod, chown, mkdir, readdir, readFile, rename, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '../../../src/engine/base/process.ts'
import type { Workspace } from '../../../src/engine/base/workspace.ts'
import { clockSlackMs } from '../../../src/engine/changeset/capture/scan.ts'
import { realDisk, type Disk } from '../../../src/engine/changeset/disk.ts'
import { runIn } from '../../../src/engine/sandbox/fixture.ts'
import { makeDispatchId } from '../../../src/shared/ids.ts'
import type { Order } from '../applying.ts'
import type { EscapeCase, Stage } from '../case.ts'
import { fileTree, isSameTree } from '../fileTree.ts'
import { asUser, captureOurWay, withChangesets } from '../landing.ts'
import type { World } from '../world.ts'

const names = Array.from({ length: 20 }, (_, at) => `f${String(at).padStart(2, '0')}`)
const all = names.join(' ')
const isRoot = process.getuid?.() === 0

/** A process of its own that is ready to land it. */
async function readyApart(order: Order, through: readonly string[] = []) {
  const program = join(import.meta.dirname, '../applying.ts')
  const [file = '', ...args] = [...through, process.execPath, ...process.execArgv, program]
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = new Promise<string | null>((resolve) => child.once('close', (_, signal) => resolve(signal)))
  let said = ''
  await new Promise<void>((resolve) => {
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      resolve()
    })
    child.once('close', () => resolve())
    child.stdin.on('error', () => {})
    child.stdin.write(`${JSON.stringify(order)}\n`)
  })
  return {
    /** Resolves to what it says, or to the signal that ended it. */
    async go(): Promise<string> {
      child.stdin.end('go\n')
      return (await ended) ?? said.trim().split('\n').at(-1) ?? ''
    },
  }
}

const applyApart = async (order: Order, through?: readonly string[]): Promise<string> =>
  (await readyApart(order, through)).go()

/** What the next process does that comes by: an apply that was cut off goes back or to its end. */
const recover = (world: World, workspace: Workspace) =>
  withChangesets(world, workspace, (changesets) => changesets.recover())

type Cut = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  /** What the agent makes of the last of the files. */
  readonly last?: string
  readonly before?: (world: World) => Promise<void>
  /** Applies with the fault; what went wrong was seen to go wrong, and never the test itself. */
  readonly ours: (
    world: World,
    workspace: Workspace,
    isWhole: () => Promise<boolean>,
  ) => Promise<{ readonly isWhole: boolean; readonly hasFailed: boolean }>
  /** A shell line that copies each file as it comes, with the same fault. */
  readonly careless: (world: World) => Promise<void>
}

/** The user's files are afterwards as they were, or as the agent left them, and nothing in between. */
const cut = ({ id, attack, guard, last = 'echo new', before, ours, careless }: Cut): EscapeCase => ({
  id,
  group: 'Changesets',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world): Promise<Stage> => {
    const { root, upper } = world.ground
    await before?.(world)
    await asUser(world, `mkdir last; for f in ${all} last/f; do echo old >$f; done`)
    await sleep(2 * clockSlackMs)
    const { workspace } = world.ground.request(['true'])
    const old = await fileTree(root)
    let wholeNow = false
    let hasFailed = true
    return {
      probe: `for f in ${all}; do echo new >$f; done; ${last} >last/f`,
      control: 'sandbox',
      afterwards: async (guarded) => {
        const wanted = { ...old, ...(await fileTree(upper)) }
        const isWhole = async () => {
          const now = await fileTree(root)
          return isSameTree(now, old) || isSameTree(now, wanted)
        }
        if (guarded) {
          await captureOurWay(world, workspace)
          const outcome = await ours(world, workspace, isWhole)
          wholeNow = outcome.isWhole
          hasFailed = outcome.hasFailed
        } else {
          await careless(world)
          wholeNow = await isWhole()
        }
      },
      tried: () => hasFailed,
      escaped: () => !wholeNow,
    }
  },
})

const copying = ({ ground }: World, then = ':') =>
  `cd '${ground.upper}'; for f in ${all} last/f; do cp $f '${ground.root}'/$f || exit 1; ${then}; done`

/** The fault, whose end is whole, and then once more without it: it was the fault that kept it from landing. */
async function failing(
  world: World,
  workspace: Workspace,
  isWhole: () => Promise<boolean>,
  through: readonly string[],
  mend: () => Promise<unknown>,
) {
  const order = { dataDir: world.ground.dataDir, id: workspace.id }
  const said = await applyApart(order, through)
  const wasWhole = await isWhole()
  await recover(world, workspace)
  const isStillWhole = await isWhole()
  await mend()
  const later = await applyApart(order)
  const hasFailed = said.startsWith('refused') && later === 'landed'
  return { isWhole: wasWhole && isStillWhole && (await isWhole()), hasFailed }
}

/** Root may write everywhere unless it gives that up. */
const powerless = isRoot ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--'] : []
const tooLarge = ['prlimit', '--fsize=400000', '--']

const cuts: readonly EscapeCase[] = [
  cut({
    id: 'apply-killed',
    attack: 'has the process that lands its files killed (kill -9) when one, half or all but one are there',
    guard: 'a journal is written first: who comes next puts all back, or all to its end',
    ours: async (world, workspace, isWhole) => {
      const { dataDir, root } = world.ground
      let wereWhole = true
      let wereCut = true
      for (const count of [1, names.length / 2, names.length - 1]) {
        const killAt = { root, names, text: 'new\n', count }
        const said = await applyApart({ dataDir, id: workspace.id, killAt })
        // The control of each round: in between it is half.
        wereCut &&= said === 'SIGKILL' && !(await isWhole())
        await recover(world, workspace)
        wereWhole &&= await isWhole()
        await withChangesets(world, workspace, async (changesets) => {
          const { state } = await changesets.get(workspace.id)
          if (state === 'applied') await changesets.undo(workspace.id, 'escape suite')
        })
      }
      return { isWhole: wereWhole, hasFailed: wereCut }
    },
    careless: async (world) => {
      const half = names[names.length / 2]
      await run('sh', ['-c', copying(world, `[ $f != ${half} ] || kill -9 $$`)])
    },
  }),
  cut({
    id: 'apply-full-disk',
    attack:
      'leaves one file that there is no room for among others that there is (by a limit on the size of files: a small disk takes root)',
    guard:
      'all contents are written beside the files first, and what cannot be is told before anything changes',
    last: 'head -c 3000000 /dev/zero',
    ours: (world, workspace, isWhole) => failing(world, workspace, isWhole, tooLarge, async () => {}),
    careless: async (world) => void (await run('prlimit', ['--fsize=400000', 'sh', '-c', copying(world)])),
  }),
  cut({
    id: 'apply-denied',
    attack: 'changes a file in a folder that may not be written any more when the changeset lands',
    guard: 'an apply that fails puts back what it has done',
    ours: async (world, workspace, isWhole) => {
      const last = join(world.ground.root, 'last')
      await close(last)
      return failing(world, workspace, isWhole, powerless, () => open(last))
    },
    careless: async (world) => {
      const last = join(world.ground.root, 'last')
      await close(last)
      await run('setpriv', [...powerless.slice(1, -1), 'sh', '-c', copying(world)])
      await open(last)
    },
  }),
]

/** Of somebody else, so that not even its owner's right to open it again is ours. */
async function close(folder: string): Promise<void> {
  await chmod(folder, 0o555)
  await chmod(join(folder, 'f'), 0o444)
  if (isRoot) for (const path of [folder, join(folder, 'f')]) await chown(path, 65534, 65534)
}

async function open(folder: string): Promise<void> {
  if (isRoot) for (const path of [folder, join(folder, 'f')]) await chown(path, 0, 0)
  await chmod(folder, 0o755)
  await chmod(join(folder, 'f'), 0o644)
}

const twoApplies: EscapeCase = {
  id: 'two-applies',
  group: 'Changesets',
  attack: 'has two changesets of the same files applied at once, for some to be of one and some of the other',
  guard: 'one apply at a time has the folders to itself; the other finds them changed',
  claim: 'blocked',
  stage: async (world): Promise<Stage> => {
    const { ground, host } = world
    await asUser(world, `for f in ${all}; do echo old >$f; done`)
    await sleep(2 * clockSlackMs)
    const first = ground.request(['true']).workspace
    const second = await besides(world, first)
    const write = (word: string) => `for f in ${all}; do echo ${word} >$f; done`
    await runIn(ground, host, write('second'), { id: second.id, workspace: second })
    let said: readonly string[] = ['landed']
    return {
      probe: write('first'),
      control: 'sandbox',
      afterwards: async (guarded) => {
        if (!guarded) {
          const copy = (from: string, order: string) =>
            run('sh', [
              '-c',
              `cd '${from}'; for f in $(ls ${order}); do cp $f '${ground.root}'; sleep 0.02; done`,
            ])
          await Promise.all([copy(ground.upper, ''), copy(upperOf(second), '-r')])
          return
        }
        await captureOurWay(world, first)
        await captureOurWay(world, second)
        const { dataDir } = ground
        const both = await Promise.all([first, second].map(({ id }) => readyApart({ dataDir, id })))
        said = await Promise.all(both.map((each) => each.go()))
      },
      // One that keeps both out keeps out too much.
      tried: () => said.includes('landed'),
      escaped: async () => {
        const texts = await Promise.all(names.map((name) => readFile(join(ground.root, name), 'utf8')))
        const leftovers = (await readdir(ground.root)).length - names.length - 1
        const haveBoth = said.filter((each) => each === 'landed').length > 1
        return new Set(texts).size > 1 || haveBoth || leftovers > 0
      },
    }
  },
}

const upperOf = (workspace: Workspace): string => {
  const mount = workspace.roots[0]?.mount
  if (mount?.kind !== 'overlay') throw new Error('no overlay')
  return mount.upper
}

/** A second agent's workspace over the same root. */
async function besides({ ground }: World, first: Workspace): Promise<Workspace> {
  const id = makeDispatchId(new Date(), Buffer.from([1, 2]))
  const dir = join(first.dir, '..', id)
  const roots = first.roots.map((root) => ({
    ...root,
    mount: {
      kind: 'overlay' as const,
      lower: ground.root,
      upper: join(dir, 'upper'),
      work: join(dir, 'work'),
    },
  }))
  for (const { mount } of roots)
    for (const path of [mount.upper, mount.work]) await mkdir(path, { recursive: true })
  return { ...first, id, dir, roots }
}

/** Swaps a folder for a link that leads outside just when it is gone into, for the n-th time. */
function swapping(folder: string, outside: string, at: number): Disk {
  let times = 0
  return {
    ...realDisk,
    open: async (path, flags, mode) => {
      if (!String(path).endsWith('/d') || ++times !== at) return realDisk.open(path, flags, mode)
      await rename(folder, `${folder}.away`)
      await symlink(outside, folder)
      try {
        return await realDisk.open(path, flags, mode)
      } finally {
        await unlink(folder)
        await rename(`${folder}.away`, folder)
      }
    },
  }
}

const mostOpens = 8

const parentSwap: EscapeCase = {
  id: 'apply-parent-swap',
  group: 'Changesets',
  attack:
    'swaps a folder for a link that leads out, at each moment at which it is gone into to land files there',
  guard: 'every folder is opened from the one above it, and no link is followed',
  claim: 'blocked',
  stage: async (world): Promise<Stage> => {
    const folder = join(world.ground.root, 'd')
    const { outside } = world
    const isOut = async () => (await readdir(outside)).length !== 2 || (await world.isCanaryTouched())
    await asUser(world, 'mkdir d; echo old >d/kept')
    await sleep(2 * clockSlackMs)
    const { workspace } = world.ground.request(['true'])
    let hasLanded = true
    let hasBeenOut = false
    return {
      probe: `for f in ${all}; do echo new >d/$f; done`,
      control: 'sandbox',
      afterwards: async (guarded) => {
        if (!guarded) {
          // By path every name is gone into anew: the swap need not hit more than one of them.
          await rename(folder, `${folder}.away`)
          await symlink(outside, folder)
          for (const name of names) await writeFile(join(folder, name), 'new\n')
          return
        }
        await captureOurWay(world, workspace)
        // The last one is never gone into so often: it shows that nothing but the swap was in the way.
        for (let at = 1; at <= mostOpens; at++) {
          hasLanded = await landAndTakeBack(world, workspace, swapping(folder, outside, at % mostOpens))
          // At once: what a swap leads out another may lead back.
          hasBeenOut ||= await isOut()
        }
      },
      tried: () => hasLanded,
      escaped: async () => hasBeenOut || (await isOut()),
    }
  },
}

const landAndTakeBack = (world: World, workspace: Workspace, disk: Disk): Promise<boolean> =>
  withChangesets(
    world,
    workspace,
    async (changesets) => {
      const selection = { all: true, include_ignored: false }
      const hasLanded = await changesets.apply(workspace.id, selection, 'escape suite').then(
        () => true,
        () => false,
      )
      if (hasLanded) await changesets.undo(workspace.id, 'escape suite').catch(() => null)
      return hasLanded
    },
    disk,
  )

export const applies: readonly EscapeCase[] = [...cuts, twoApplies, parentSwap]
