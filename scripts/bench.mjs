// `npm run bench`: set-up, then the benchmark on the project's own Node.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { ensureBuild } from './workshop/build.mjs'
import { ensurePackages } from './workshop/packages.mjs'
import { projectEnv, projectNode, root } from './workshop/places.mjs'
import { main } from './workshop/say.mjs'
import { ensureSystemPackages } from './workshop/system.mjs'

await main(async () => {
  await ensurePackages()
  await ensureSystemPackages('start')
  await ensureBuild()
  const args = [join(root, 'bench', 'run.ts'), ...process.argv.slice(2)]
  // Supervisors as users have them: the bundles, which are fresh by now.
  const env = { ...projectEnv(), ORANGERY_BUNDLES: join(root, 'out', 'main') }
  return spawnSync(projectNode(), args, { cwd: root, stdio: 'inherit', env }).status ?? 1
})
