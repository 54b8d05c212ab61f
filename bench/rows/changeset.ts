import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeDispatchId } from '../../src/shared/ids.ts'
import { layout, repoIdOf } from '../../src/engine/base/paths.ts'
import { run } from '../../src/engine/base/process.ts'
import type { Workspace } from '../../src/engine/base/workspace.ts'
import { createChangesets } from '../../src/engine/changeset/index.ts'
import { longestPauseMs } from '../../src/engine/dispatch/record/liveCapture.ts'
import { openStore } from '../../src/engine/store/index.ts'
import type { Contender, Row } from '../row.ts'
import { benchFolder, tree } from '../trees.ts'

const files = 200_000
const changed = 1_000

/** The same thousand edits, spread over the tree, for us and for git. */
async function edit(root: string, count = changed): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    const group = at * 2
    const path = join(root, `d${Math.floor(group / 50)}`, `d${group % 50}`, `file${at % 100}.txt`)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, `edited ${at}\n`.repeat(4))
  }
}

async function overlayWorkspace(
  root: string,
): Promise<{ workspace: Workspace; dataDir: string; upper: string }> {
  const dataDir = await mkdtemp(join(await benchFolder(), 'changeset-'))
  const id = makeDispatchId(new Date(), randomBytes(2))
  const repoId = repoIdOf(root)
  const dir = layout(dataDir).sandbox(repoId, id)
  const mount = { kind: 'overlay', lower: root, upper: join(dir, 'upper'), work: join(dir, 'work') } as const
  await mkdir(mount.upper, { recursive: true })
  const workspace: Workspace = {
    id,
    repoId,
    strategy: 'overlay',
    driver: 'kernel-overlay',
    dir,
    roots: [{ path: root, target: root, name: 'tree', role: 'project', access: 'rw', mount }],
    createdAtMs: Date.now() + 1000,
  }
  return { workspace, dataDir, upper: mount.upper }
}

async function openChangesets(dataDir: string, workspace: Workspace) {
  const store = await openStore(dataDir)
  store.dispatches.create({
    id: workspace.id,
    repoId: workspace.repoId,
    parentId: null,
    name: null,
    agent: 'command',
    role: null,
    phase: null,
    prompt: null,
    sandbox: null,
    sandboxSpec: null,
    level: 1,
    boundary: 'readwrite',
    roots: workspace.roots.map((root) => root.path),
    command: ['true'],
    status: 'starting',
    error: null,
    createdAt: new Date().toISOString(),
  })
  return { store, changesets: createChangesets({ layout: layout(dataDir), records: store.changesets }) }
}

/** `git status` and `git diff` on a real copy of the tree with the same edits. */
async function gitOnCopy(root: string): Promise<Contender> {
  const copy = join(await mkdtemp(join(await benchFolder(), 'copy-')), 'tree')
  await run('cp', ['-a', root, copy])
  await edit(copy)
  const env = { PATH: process.env['PATH'] ?? '', GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' }
  return {
    name: 'git status + git diff',
    async sample() {
      await run('git', ['status', '--porcelain'], { cwd: copy, env })
      await run('git', ['diff'], { cwd: copy, env })
    },
  }
}

const listing: Row = {
  name: 'list what changed: 1,000 files in a tree of 200,000',
  samples: 7,
  async prepare(scope) {
    const root = await tree(files)
    const { workspace, dataDir, upper } = await overlayWorkspace(root)
    await edit(upper)
    const { store, changesets } = await openChangesets(dataDir, workspace)
    scope.use(store)
    return {
      subject: {
        name: 'peek',
        async sample() {
          const found = await changesets.peek(workspace)
          const edits = found.filter((each) => each.change === 'modified')
          if (edits.length !== changed) throw new Error(`saw ${edits.length} changes`)
        },
      },
      peers: [await gitOnCopy(root)],
      limits: [{ against: 'git status + git diff', atMost: 0.1 }],
    }
  },
}

const capturing: Row = {
  name: 'capture with both contents and the diff: 1,000 files in a tree of 200,000',
  samples: 5,
  async prepare(scope) {
    const root = await tree(files)
    let { workspace } = await overlayWorkspace(root)
    const edited = join(await mkdtemp(join(await benchFolder(), 'upper-')), 'upper')
    await edit(edited)
    const fresh = async () => {
      const made = await overlayWorkspace(root)
      workspace = made.workspace
      await cp(edited, made.upper, { recursive: true })
      return openChangesets(made.dataDir, workspace)
    }
    let open = await fresh()
    scope.defer(() => open.store.close())
    return {
      subject: {
        name: 'capture',
        async sample() {
          const captured = await open.changesets.capture(workspace, { final: true })
          if (captured?.files !== changed) throw new Error(`captured ${captured?.files} files`)
        },
        async reset() {
          await open.store.close()
          open = await fresh()
        },
      },
      peers: [await gitOnCopy(root)],
      limits: [{ against: 'git status + git diff', atMost: 1 }],
    }
  },
}

const following: Row = {
  name: 'a change shows up while the agent runs: one more of 100 files in a tree of 200,000',
  samples: 5,
  async prepare(scope) {
    const root = await tree(files)
    const { workspace, dataDir, upper } = await overlayWorkspace(root)
    await edit(upper, 100)
    const { store, changesets } = await openChangesets(dataDir, workspace)
    scope.use(store)
    await changesets.capture(workspace, { final: false })
    let last = ''
    let written = 0
    return {
      subject: {
        name: 'longest wait and the look',
        async sample() {
          written += 1
          await writeFile(join(upper, 'd0', 'd0', 'file0.txt'), `written ${written}\n`)
          const began = performance.now()
          const captured = await changesets.capture(workspace, { final: false })
          const look = performance.now() - began
          if (captured === null || captured.revision === last) throw new Error('the change was not seen')
          last = captured.revision
          return longestPauseMs(look) + look
        },
      },
      peers: [{ name: 'a second', sample: async () => 1000 }],
      limits: [{ against: 'a second', atMost: 1 }],
    }
  },
}

const applying: Row = {
  name: 'apply 1,000 files',
  samples: 5,
  async prepare(scope) {
    const folder = await mkdtemp(join(await benchFolder(), 'apply-'))
    const root = join(folder, 'root')
    await edit(root)
    await run('sh', ['-c', 'find . -type f -exec sh -c \'for f; do echo old > "$f"; done\' sh {} +'], {
      cwd: root,
    })
    const { workspace, dataDir, upper: source } = await overlayWorkspace(root)
    await edit(source)
    const { store, changesets } = await openChangesets(dataDir, workspace)
    scope.use(store)
    await changesets.capture(workspace, { final: true })
    const copy = join(folder, 'copy')
    return {
      subject: {
        name: 'apply',
        async sample() {
          const result = await changesets.apply(workspace.id, { all: true, include_ignored: true }, 'bench')
          if (result.applied.length !== changed) throw new Error(`applied ${result.applied.length} files`)
        },
        async reset() {
          await changesets.undo(workspace.id, 'bench')
        },
      },
      peers: [
        {
          name: 'cp -r with fsync',
          async sample() {
            await run('sh', ['-c', 'cp -r "$1" "$2" && find "$2" -exec sync {} +', 'sh', source, copy])
          },
          reset: () => rm(copy, { recursive: true, force: true }),
        },
      ],
      limits: [{ against: 'cp -r with fsync', atMost: 3 }],
    }
  },
}

/** What a process and those it started hold at this moment, in MB. */
async function memoryOf(pid: number): Promise<number> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '')
  const own = Number(/^VmRSS:\s+(\d+)/m.exec(await read(`/proc/${pid}/status`))?.[1] ?? 0) / 1024
  const children = (await read(`/proc/${pid}/task/${pid}/children`)).split(' ').filter(Boolean)
  const held = await Promise.all(children.map((child) => memoryOf(Number(child))))
  return held.reduce((sum, each) => sum + each, own)
}

/**
 * Limited is what the capture adds: the process with every git it starts, beyond what it held before it began. All it
 * holds is told beside it and not limited: Node with our code loaded is most of that, whatever is captured.
 */
const memory: Row = {
  name: 'memory that capturing a binary of 1 GB adds',
  unit: 'MB',
  samples: 1,
  warmups: 0,
  async prepare() {
    const root = await mkdtemp(join(await benchFolder(), 'big-'))
    const { workspace, dataDir, upper } = await overlayWorkspace(root)
    await run('sh', ['-c', 'head -c 1073741824 /dev/urandom > "$1/big"', 'sh', upper])
    const { store } = await openChangesets(dataDir, workspace)
    await store.close()
    const script = `
      const { openStore } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/engine/store/index.ts'))})
      const { createChangesets } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/engine/changeset/index.ts'))})
      const { layout } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/engine/base/paths.ts'))})
      const store = await openStore(${JSON.stringify(dataDir)})
      const changesets = createChangesets({ layout: layout(${JSON.stringify(dataDir)}), records: store.changesets })
      const before = process.resourceUsage().maxRSS
      console.log('ready')
      await new Promise((resolve) => process.stdin.once('data', resolve))
      const captured = process.argv[1] === 'idle' ? null : await changesets.capture(${JSON.stringify(workspace)}, { final: true })
      if (process.argv[1] !== 'idle' && captured?.files !== 1) throw new Error('nothing captured')
      console.log((process.resourceUsage().maxRSS - before) / 1024)
      await store.close()
      process.exit(0)`
    const measure = async () => {
      const started = spawn(process.execPath, ['--input-type=module', '-e', script, 'capture'], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      const pid = started.pid ?? 0
      let told = ''
      started.stdout.on('data', (chunk: Buffer) => (told += chunk.toString()))
      const closed = new Promise((resolve) => started.on('close', resolve))
      await Promise.race([once(started.stdout, 'data'), closed])
      const before = await memoryOf(pid)
      started.stdin.write('go\n')
      let most = before
      while (started.exitCode === null && started.signalCode === null) {
        most = Math.max(most, await memoryOf(pid))
        await sleep(5)
      }
      await closed
      return { own: Number(told.replace('ready', '')), whole: most - before, total: most }
    }
    let measured: ReturnType<typeof measure> | undefined
    const figure = (of: 'own' | 'whole' | 'total') => async () => (await (measured ??= measure()))[of]
    return {
      subject: { name: 'growth of the process and its children', sample: figure('whole') },
      peers: [
        { name: '100 MB', sample: async () => 100 },
        { name: 'growth of the process alone', sample: figure('own') },
        { name: 'all it holds, Node included', sample: figure('total') },
      ],
      limits: [{ against: '100 MB', atMost: 1 }],
    }
  },
}

export const rows: readonly Row[] = [listing, capturing, following, applying, memory]
