import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'

test('with few open files a program reaches one host below a wildcard after the other, by name and by proxy', async () => {
  const web = createServer((_, response) => response.end('outside\n')).listen(0, '127.0.0.1')
  await once(web, 'listening')
  const { port } = web.address() as AddressInfo
  try {
    using place = new Place()
    const spec = { outputs: { mode: 'restricted', pins: { '*.wild.example': `127.0.0.1:${port}` } } }
    const get = (way: string) => `curl -sS --max-time 20 ${way} http://h$at.wild.example/`
    const script = `at=0; while [ $at -lt 80 ]; do ${get("--noproxy '*'")}; at=$((at + 1)); done; ${get('')}`
    const ran = await place.orangeryWith(
      { through: ['sh', '-c', 'ulimit -n 256; exec "$@"', 'sh'] },
      'run',
      '--sandbox-spec',
      JSON.stringify(spec),
      '--',
      'sh',
      '-c',
      script,
    )
    expect(ran.stdout, ran.stderr).toBe('outside\n'.repeat(81))
    expect(ran.stderr).toBe('')
  } finally {
    web.close()
    web.closeAllConnections()
  }
})
