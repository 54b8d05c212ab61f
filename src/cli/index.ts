import { enableCompileCache } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'

// In our own cache folder: Node's default is a shared temp folder, where others could leave compiled code.
const cacheHome = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
enableCompileCache(join(cacheHome, 'orangery', 'compile'))

const { main } = await import('./main.ts')
const code = await main(process.argv.slice(2))

// What is still queued for a slow pipe would be lost by an exit: half a JSON document, half a diff.
const streams = [process.stdout, process.stderr].filter((stream) => stream.writableLength > 0)
await Promise.all(streams.map((stream) => new Promise((done) => stream.write('', done))))
process.exit(code)
