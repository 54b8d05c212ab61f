import { setTimeout as sleep } from 'node:timers/promises'
import { plainCopy, worktreeAdd } from '../copies.ts'
import { handWritten, plainBubblewrap, plainSpawn } from '../firstInstruction.ts'
import { memoryBelow, supervisorOf } from '../memory.ts'
import type { Row } from '../row.ts'
import { tree } from '../trees.ts'
import { warmEngine, warmSpawn } from '../warmEngine.ts'

const firstInstruction: Row = {
  name: "from the call into a warm engine to the agent's first instruction, level 1, recorded and probed",
  samples: 50,
  warmups: 3,
  async prepare(scope) {
    const root = await tree(10)
    return {
      subject: warmSpawn(await warmEngine(scope), root, 'orangery'),
      peers: [await handWritten(root), plainBubblewrap(), plainSpawn()],
      limits: [{ against: 'hand-written line', atMost: 2 }],
    }
  },
}

const treeSize: Row = {
  name: 'spawn to first instruction, tree of 200,000 files against one of 10',
  samples: 20,
  async prepare(scope) {
    const engine = await warmEngine(scope)
    return {
      subject: warmSpawn(engine, await tree(200_000), 'orangery, 200,000 files'),
      peers: [
        warmSpawn(engine, await tree(10), 'orangery, 10 files'),
        await handWritten(await tree(200_000), 'hand-written line, 200,000 files'),
      ],
      limits: [{ against: 'orangery, 10 files', atMost: 1.2 }],
    }
  },
}

const instead: Row = {
  name: 'spawn to first instruction on 200,000 files, against making the agent a tree of its own',
  samples: 3,
  warmups: 0,
  async prepare(scope) {
    const root = await tree(200_000)
    return {
      subject: warmSpawn(await warmEngine(scope), root, 'orangery'),
      peers: [await worktreeAdd(root), await plainCopy(root)],
      limits: [{ against: 'git worktree add', atMost: 1 / 50 }],
    }
  },
}

const memory: Row = {
  name: 'memory of everything between supervisor and agent, spawned by a card that declares no outputs',
  unit: 'MB',
  samples: 10,
  warmups: 0,
  async prepare(scope) {
    const { client } = await warmEngine(scope)
    const root = await tree(10)
    return {
      subject: {
        name: 'orangery',
        async sample() {
          const { id } = await client.call('dispatch.spawn', {
            agent: 'shell',
            prompt: 'exec sleep 100',
            roots: [root],
          })
          let supervisor: number | null = null
          while (supervisor === null) {
            await sleep(100)
            supervisor = await supervisorOf('sleep')
          }
          await sleep(500)
          const used = await memoryBelow(supervisor, 'sleep')
          await client.call('dispatch.kill', { id })
          return used
        },
      },
      peers: [{ name: 'ten megabytes', sample: () => Promise.resolve(10) }],
      limits: [{ against: 'ten megabytes', atMost: 1 }],
    }
  },
}

export const rows = [memory, firstInstruction, treeSize, instead]
