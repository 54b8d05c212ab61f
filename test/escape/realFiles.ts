import type { Stage } from './case.ts'
import type { World } from './world.ts'

/** As with `--changeset none`: what the agent writes is the user's own files. */
export function realFiles({ ground }: World): NonNullable<Stage['request']> {
  const { workspace } = ground.request(['true'])
  const roots = workspace.roots.map((root) => ({
    ...root,
    mount: { kind: 'bind' as const, source: ground.root },
  }))
  return { workspace: { ...workspace, strategy: 'none', driver: 'direct', roots } }
}
