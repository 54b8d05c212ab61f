import type { EscapeCase } from './case.ts'
import { applies } from './cases/applies.ts'
import { calls } from './cases/calls.ts'
import { changesets } from './cases/changesets.ts'
import { egress } from './cases/egress.ts'
import { files } from './cases/files.ts'
import { floods } from './cases/floods.ts'
import { ipc } from './cases/ipc.ts'
import { kernel } from './cases/kernel.ts'
import { namespaces } from './cases/namespaces.ts'
import { network } from './cases/network.ts'
import { processes } from './cases/processes.ts'
import { treeChanges } from './cases/treeChanges.ts'
import { resources } from './cases/resources.ts'

export const suite: readonly EscapeCase[] = [
  ...files,
  ...kernel,
  ...calls,
  ...namespaces,
  ...processes,
  ...ipc,
  ...network,
  ...egress,
  ...floods,
  ...resources,
  ...changesets,
  ...treeChanges,
  ...applies,
]
