import type { Client } from '../../src/shared/api.ts'
import { OrangeryError } from '../../src/shared/errors.ts'

/** One that really runs and otherwise ones that preflight refuses: both are on record, and the latter are quick. */
export async function recordSome(client: Client, folder: string, count: number): Promise<string[]> {
  const made: string[] = []
  for (let index = 0; index < count; index++) {
    made.push(await (index === 0 ? runOne(client, folder) : refusedOne(client, folder)))
  }
  return made
}

async function runOne(client: Client, folder: string): Promise<string> {
  const { id } = await client.call('dispatch.spawn', {
    roots: [folder],
    command: ['true'],
    sandbox_spec: '{ }',
  })
  return id
}

async function refusedOne(client: Client, folder: string): Promise<string> {
  try {
    await client.call('dispatch.spawn', {
      roots: [`${folder}/gone`],
      command: ['true'],
      sandbox_spec: '{ }',
    })
  } catch (error) {
    // Anything else, a lock above all, is what must not be seen.
    if (!(error instanceof OrangeryError) || error.code !== 'preflight.failed') throw error
    return (error.details as { id: string }).id
  }
  throw new Error('a folder that is not there was accepted')
}
