import type { Door } from '../../door/index.ts'
import type { SpareHolder } from '../../sandbox/index.ts'
import type { UserIdentity } from '../../workspace/index.ts'

/** What was made before it was known for whom. */
export type Spares = {
  readonly holder: SpareHolder | null
  readonly door: Door | null
  readonly identity: UserIdentity | null
}
