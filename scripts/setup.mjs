// Brings a fresh checkout to where everything runs. Quiet and quick when there is nothing to do.
import { ensureBuild } from './workshop/build.mjs'
import { ensurePackages } from './workshop/packages.mjs'
import { main } from './workshop/say.mjs'
import { ensureSystemPackages } from './workshop/system.mjs'

await main(async () => {
  await ensurePackages()
  await ensureSystemPackages(process.argv.includes('--test') ? 'test' : 'start')
  await ensureBuild()
})
