import type { Layout } from '../base/paths.ts'
import type { Changesets } from '../changeset/index.ts'
import type { HostFacts } from '../sandbox/index.ts'
import type { Store } from '../store/index.ts'

/** Where a process of ours works; given when it starts, so that a spare can open everything before it is needed. */
export type Places = { readonly dataDir: string; readonly configDir: string }

/** What the corridor leads a dispatch through: the stations of one data folder, opened once. */
export type Parts = {
  readonly layout: Layout
  readonly configDir: string
  /** Folder of our sockets and pipes. */
  readonly runtime: string
  readonly store: Store
  readonly changesets: Changesets
  /** What this host can do; found out once, when first asked. */
  readonly host: () => Promise<HostFacts>
  /** The same, with what is to be hidden of it by now. */
  readonly hostNow: () => Promise<HostFacts>
  /** Notes from now on what may have to be hidden by then: for who waits for a dispatch. */
  readonly watchHost: () => Promise<void>
}
