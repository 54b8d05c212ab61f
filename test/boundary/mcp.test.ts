import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { expect, test } from 'vitest'
import { Place } from '../../src/cli/testing/orangery.ts'
import type { DispatchDetail } from '../../src/shared/dispatch.ts'
import type { BoundaryRequest } from '../../src/shared/escalation.ts'

test('an MCP client asks from inside a sandbox, is told that a person decides, and gets what the person said', async () => {
  using place = new Place('launcher')
  const json = async <T>(...args: string[]) => {
    const ran = await place.orangery(...args, '--json')
    expect(ran, args.join(' ')).toMatchObject({ code: 0, stderr: '' })
    return JSON.parse(ran.stdout) as T
  }
  const inbox = async () => {
    for (let tries = 0; tries < 60; tries++) {
      const [request] = await json<BoundaryRequest[]>('boundary', 'inbox')
      if (request !== undefined) return request
      await sleep(300)
    }
    throw new Error('nothing came to the inbox')
  }
  const [command = '', ...before] = place.command
  // What the file in the door says, with our sandbox around it.
  const script = `sed -n 's/.*"command": "\\(.*\\)",/\\1/p' /run/orangery/door/mcp.json >/tmp/server
    [ -w . ] && exit 9
    "$(cat /tmp/server)" mcp
    touch made`
  const transport = new StdioClientTransport({
    command,
    args: [...before, 'run', '--boundary', 'readonly', '--', 'sh', '-c', script],
    env: place.env,
    cwd: place.folder,
    stderr: 'ignore',
  })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport, { timeout: 60_000 })
  await using _client = { [Symbol.asyncDispose]: () => client.close() }
  const show = async () => (await client.callTool({ name: 'show_boundary' })).structuredContent
  const told: string[] = []
  const ask = (input: object) =>
    client.callTool({ name: 'request_boundary', arguments: { ...input, wait_seconds: 300 } }, undefined, {
      timeout: 300_000,
      onprogress: ({ message = '' }) => told.push(message),
    })
  expect(await show()).toMatchObject({ level: 'readonly', files: 'read-only', hosts: [], requests: [] })

  const first = ask({ level: 'readwrite', reason: 'to write "made"' })
  const asked = await inbox()
  expect(asked).toMatchObject({ to: 'readwrite', source: 'agent', why: 'to write "made"' })
  expect(told[0]).toBe('a person was asked and has not answered yet')
  await json('boundary', 'deny', asked.dispatch, '--message', 'think first')
  expect(await first).toMatchObject({ structuredContent: { status: 'denied', message: 'think first' } })

  const second = ask({ level: 'network', hosts: ['api.test:443'], reason: 'to ask' })
  await json('boundary', 'approve', (await inbox()).dispatch, '--message', 'go on')
  expect(await second).toMatchObject({ structuredContent: { status: 'approved', message: 'go on' } })
  expect(await show()).toMatchObject({
    level: 'network',
    files: 'writable',
    hosts: ['api.test:443'],
    requests: [
      { status: 'denied', message: 'think first' },
      { status: 'approved', message: 'go on' },
    ],
  })
  // The client closes its end: the server ends, and what comes after it may write.
  await client.close()
  expect((await place.orangery('dispatch', 'wait', asked.dispatch)).code).toBe(0)
  const { changeset } = await json<DispatchDetail>('dispatch', 'status', asked.dispatch)
  expect(changeset).toMatchObject({ files: 1 })
})
