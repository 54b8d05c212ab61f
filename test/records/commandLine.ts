// Dispatches as one command line call after another records them: an engine of its own for every few. Prints the ids.
import { createEngine } from '../../src/engine/index.ts'
import { recordSome } from './recordSome.ts'

const [dataDir = '', folder = '', wanted = '0'] = process.argv.slice(2)
const made: string[] = []
while (made.length < Number(wanted)) {
  await using engine = await createEngine({ dataDir, host: 'command-line' })
  made.push(...(await recordSome(engine.client, folder, 50)))
}
process.stdout.write(JSON.stringify(made))
