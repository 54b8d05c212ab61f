import type { EscapeCase } from './case.ts'
import { changesets } from './cases/changesets.ts'
import { egress } from './cases/egress.ts'
import { files } from './cases/files.ts'
import { ipc } from './cases/ipc.ts'
import { kernel } from './cases/kernel.ts'
import { namespaces } from './cases/namespaces.ts'
import { network } from './cases/network.ts'
import { processes } from './cases/processes.ts'
import { resources } from './cases/resources.ts'

export const suite: readonly EscapeCase[] = [
  ...files,
  ...kernel,
  ...namespaces,
  ...processes,
  ...ipc,
  ...network,
  ...egress,
  ...resources,
  ...changesets,
]
