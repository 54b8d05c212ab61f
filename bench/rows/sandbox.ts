import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeGround, runIn, startOn, type Ground } from '../../src/engine/sandbox/fixture.ts'
import { detectHost, type HostFacts } from '../../src/engine/sandbox/index.ts'
import { run } from '../../src/engine/base/process.ts'
import { handWritten, nowMs, plainBubblewrap, tellTime } from '../firstInstruction.ts'
import { memoryBelow } from '../memory.ts'
import { NotHere, type Contender, type Row } from '../row.ts'
import { benchFolder, tree } from '../trees.ts'

async function prepareGround(scope: AsyncDisposableStack): Promise<{ ground: Ground; host: HostFacts }> {
  const ground = scope.use(await makeGround('project', await benchFolder()))
  const host = await detectHost(ground.dataDir)
  if (!host.userNamespaces.ok || host.bubblewrap === null) throw new NotHere('no level 1 on this host')
  return { ground, host }
}

function fixed(name: string, figure: number): Contender {
  return { name, sample: () => Promise.resolve(figure) }
}

const made: Row = {
  name: 'a sandbox made from nothing, without an engine, to the first instruction, probed',
  samples: 50,
  warmups: 3,
  async prepare(scope) {
    const { ground, host } = await prepareGround(scope)
    const request = ground.request([...tellTime])
    return {
      subject: {
        name: 'sandbox',
        async sample() {
          const started = nowMs()
          const { sandbox, finish } = await startOn(ground, request, host)
          sandbox.release()
          return Number((await finish()).stdout.trim()) / 1e6 - started
        },
      },
      peers: [await handWritten(ground.root), plainBubblewrap()],
      limits: [{ against: 'hand-written line', atMost: 2 }],
    }
  },
}

/** Read-only, there is one more: who watches for writes that are denied. */
const memory = (files: 'ro' | 'rw', counted: string): Row => ({
  name: `memory of everything between supervisor and agent, without network, files ${files === 'ro' ? 'read-only' : 'writable'}`,
  unit: 'MB',
  samples: 50,
  async prepare(scope) {
    const { ground, host } = await prepareGround(scope)
    return {
      subject: {
        name: counted,
        async sample() {
          const { sandbox } = await startOn(ground, ground.request(['sleep', '100'], { files }), host)
          await using _ = sandbox
          sandbox.release()
          await sleep(50)
          return await memoryBelow(process.pid, 'sleep')
        },
      },
      peers: [fixed('ten megabytes', 10)],
      limits: [{ against: 'ten megabytes', atMost: 1 }],
    }
  },
})
const holding = 'unshare, holder, who takes its orders, who watches that one, bubblewrap twice'

const flip: Row = {
  name: 'from a decision to its effect: read-only to writable and back on a running process tree',
  samples: 50,
  async prepare(scope) {
    const { ground, host } = await prepareGround(scope)
    const { sandbox } = await startOn(ground, ground.request(['sleep', '1000']), host)
    scope.use(sandbox)
    sandbox.release()
    let files: 'ro' | 'rw' = 'rw'
    return {
      subject: {
        name: 'flip',
        async sample() {
          files = files === 'rw' ? 'ro' : 'rw'
          return (await sandbox.setFiles(files)).tookMs
        },
      },
      peers: [fixed('fifty milliseconds', 50)],
      limits: [{ against: 'fifty milliseconds', atMost: 1 }],
    }
  },
}

const walk = 'find . -path ./.git -prune -o -type f -print0 | xargs -0 cat | wc -c >/dev/null; date +%s%N'
/** Tells how long it took, in nanoseconds, by a clock of its own. */
const timedWalk = `a=$(date +%s%N); b=$(${walk}); echo $((b-a))`

// One sandbox for all samples: outside, too, the second walk finds what the first has read in memory.
const reading: Row = {
  name: 'walking and reading a tree of 200,000 files inside, against outside, both not for the first time',
  samples: 50,
  async prepare(scope) {
    const root = await tree(200_000)
    const { ground, host } = await prepareGround(scope)
    const request = ground.request(['true'])
    const [first] = request.workspace.roots
    if (first?.mount.kind !== 'overlay') throw new Error('the ground has no overlay')
    const large = { ...first, path: root, target: root, mount: { ...first.mount, lower: root } }
    const workspace = { ...request.workspace, roots: [large] }
    const again = `n=1; while :; do while [ ! -e ~/go$n ]; do sleep 0.02; done; ${timedWalk} >~/new; mv ~/new ~/took$n; n=$((n+1)); done`
    const command = ['sh', '-c', again] as const
    const { sandbox } = await startOn(ground, ground.request(command, { workspace, cwd: root }), host)
    scope.use(sandbox)
    sandbox.release()
    let round = 0
    return {
      subject: {
        name: 'inside',
        async sample() {
          round++
          await ground.writeHome(`go${round}`)
          const took = join(ground.home, `took${round}`)
          while (!existsSync(took)) await sleep(20)
          return Number(await readFile(took, 'utf8')) / 1e6
        },
      },
      peers: [
        {
          name: 'outside',
          async sample() {
            const { stdout } = await run('sh', ['-c', timedWalk], { cwd: root })
            return Number(stdout.toString()) / 1e6
          },
        },
      ],
      limits: [{ against: 'outside', atMost: 1.4 }],
    }
  },
}

const many: Row = {
  name: 'fifty sandboxes at once, from the first call to the last end',
  samples: 50,
  async prepare(scope) {
    const { ground: first, host } = await prepareGround(scope)
    const grounds: Ground[] = [first]
    while (grounds.length < 50) grounds.push(scope.use(await makeGround('project', await benchFolder())))
    const peer = await handWritten(first.root)
    return {
      subject: {
        name: 'fifty at once',
        async sample() {
          const ends = await Promise.all(grounds.map((ground) => runIn(ground, host, 'true')))
          if (ends.some(({ exitCode }) => exitCode !== 0)) throw new Error('not all of them ran')
        },
      },
      peers: [
        {
          name: 'hand-written line, fifty after another',
          async sample() {
            for (let round = 0; round < 50; round++) {
              await peer.sample()
              await peer.reset?.()
            }
          },
        },
      ],
      limits: [{ against: 'hand-written line, fifty after another', atMost: 2 }],
    }
  },
}

export const rows = [
  made,
  memory('rw', holding),
  memory('ro', `${holding}, and who watches writes`),
  flip,
  reading,
  many,
]
