import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import { createEngine } from '../../src/engine/index.ts'
import { Bench } from '../dispatch/harness.ts'

/** A bench for each test, whose user has one agent by this card. */
export function benchWithCard(card: { readonly id: string }): () => Bench {
  const formerConfigHome = process.env['XDG_CONFIG_HOME']
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.create()
    await bench.engine.close()
    const config = join(bench.base, 'config')
    await mkdir(join(config, 'orangery', 'agents'), { recursive: true })
    await writeFile(join(config, 'orangery', 'agents', `${card.id}.json`), JSON.stringify(card))
    process.env['XDG_CONFIG_HOME'] = config
    bench.engine = await createEngine({ dataDir: bench.dataDir, host: 'command-line' })
  })
  afterEach(async () => {
    if (formerConfigHome === undefined) delete process.env['XDG_CONFIG_HOME']
    else process.env['XDG_CONFIG_HOME'] = formerConfigHome
    await bench[Symbol.asyncDispose]()
  })
  return () => bench
}
