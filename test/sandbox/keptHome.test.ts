import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'

const python = '/usr/bin/python3'
const listen = `import os,socket,sys
s=socket.socket(socket.AF_UNIX); s.bind(os.path.expanduser("~/s")); s.listen()
while True: s.accept()[0].send(b"reached")`
const reach = `import os,socket
s=socket.socket(socket.AF_UNIX)
try: s.connect(os.path.expanduser("~/s")); print(s.recv(9).decode())
except OSError as e: print(e.strerror)`

function makePlace(): Place {
  const place = new Place('launcher')
  const agents = join(place.home, 'config', 'orangery', 'agents')
  mkdirSync(agents, { recursive: true })
  const card = { id: 'kept', name: 'Kept', command: ['sh', '-c', '{prompt}'] }
  writeFileSync(join(agents, 'kept.json'), JSON.stringify({ ...card, sandboxRequirements: { home: 'keep' } }))
  writeFileSync(join(place.folder, 'listen.py'), listen)
  writeFileSync(join(place.folder, 'reach.py'), reach)
  return place
}

async function answerAt(path: string): Promise<string> {
  const socket = connect(path)
  const [said] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return said.toString()
}

test('two runs of a card that keeps its home do not share it: the second has its own, is told so, and reaches no socket of the first', async (context) => {
  if (!existsSync(python)) return context.skip(`${python} is not installed`)
  using place = makePlace()
  const run = (prompt: string) => place.orangery('run', '--agent', 'kept', '--prompt', prompt)
  const home = join(place.dataDir, 'homes', 'kept')
  // The controls: a home is kept from run to run, and the probe reaches a socket in its own.
  await run('echo first > ~/mark')
  const alone = await run(
    `cat ~/mark; ${python} listen.py & while [ ! -S ~/s ]; do sleep 0.01; done; ${python} reach.py; rm ~/s`,
  )
  expect(alone.stdout).toBe('first\nreached\n')
  expect(alone.stderr).not.toMatch(/kept home/)

  const first = place.start({}, 'run', '--agent', 'kept', '--prompt', `exec ${python} listen.py`)
  const firstEnded = ended(first)
  try {
    while (!existsSync(join(home, 's')) && first.exitCode === null) await sleep(20)
    const second = await run(`${python} reach.py; cat ~/mark; echo second > ~/mark; touch ~/own`)
    expect(second.stdout).toBe('No such file or directory\n')
    expect(second.stderr).toMatch(/another run of kept has its kept home: this one has its own, which is not/)
    // Nobody answers the second because it is kept out, not because nobody is there.
    expect(await answerAt(join(home, 's'))).toBe('reached')
    const listed = await place.orangery('dispatch', 'list', '--json')
    const [{ id }] = JSON.parse(listed.stdout) as [{ id: string }]
    const events = await place.orangery('dispatch', 'events', id)
    expect(events.stdout).toMatch(/Note +another run of kept has its kept home/)
  } finally {
    first.kill('SIGTERM')
    await firstEnded
  }
  const later = await run('rm ~/s; cat ~/mark; ls ~')
  expect(later.stdout).toBe('first\nmark\n')
  expect(later.stderr).not.toMatch(/kept home/)
})

test('a kept home is free again at once when the process that had it is killed', async () => {
  using place = makePlace()
  const home = join(place.dataDir, 'homes', 'kept')
  const first = place.start({}, 'run', '--agent', 'kept', '--prompt', 'touch ~/there; exec sleep 60')
  const firstEnded = ended(first)
  while (!existsSync(join(home, 'there')) && first.exitCode === null) await sleep(20)
  first.kill('SIGKILL')
  await firstEnded
  const next = await place.orangery('run', '--agent', 'kept', '--prompt', 'ls ~')
  expect(next.stdout).toBe('there\n')
  expect(next.stderr).not.toMatch(/kept home/)
})
