import { handWritten, plainBubblewrap, plainSpawn } from '../firstInstruction.ts'
import type { Row } from '../row.ts'
import { tree } from '../trees.ts'

const treeSize: Row = {
  name: 'the overlay itself: first instruction on a tree of 200,000 files against one of 10',
  samples: 30,
  async prepare() {
    return {
      subject: await handWritten(await tree(200_000), 'hand-written line, 200,000 files'),
      peers: [
        await handWritten(await tree(10), 'hand-written line, 10 files'),
        plainBubblewrap(),
        plainSpawn(),
      ],
      limits: [{ against: 'hand-written line, 10 files', atMost: 1.2 }],
    }
  },
}

export const rows = [treeSize]
