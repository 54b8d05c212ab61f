import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'

// In our own cache folder: Node's default is a shared temp folder, where others could leave compiled code.
const cacheHome = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
enableCompileCache(join(cacheHome, 'orangery', 'compile'))

const { main } = await import('./main.ts')
process.exit(await main(process.argv.slice(2)))
