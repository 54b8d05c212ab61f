import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { DispatchId } from '../../shared/ids.ts'
import { fingerprint, makeFeature, type Feature } from './fixture.ts'
import { enterInvocation, resolveInvocation, scanInvocations } from './index.ts'

let { ground, repoId, start } = {} as Feature
beforeEach(async () => {
  ;({ ground, repoId, start } = await makeFeature())
})
afterEach(() => ground[Symbol.asyncDispose]())

describe('Invocation Resolver', () => {
  test('accepts a full id and a unique prefix, and never a name', async () => {
    const meta = await start({ name: 'test-agent' })
    const id = meta.invocation_id
    expect((await resolveInvocation(ground.layout, id)).id).toBe(id)
    expect((await resolveInvocation(ground.layout, id.slice(0, 16))).id).toBe(id)
    await expect(resolveInvocation(ground.layout, 'test-agent')).rejects.toMatchObject({
      code: 'workspace.not_found',
      exitCode: 66,
    })
    await expect(resolveInvocation(ground.layout, '')).rejects.toMatchObject({ code: 'workspace.not_found' })
  })

  test('says which ids an ambiguous prefix could mean', async () => {
    await start({ id: '20260128120500-b7c9' as DispatchId })
    await start({ id: '20260128120500-b7d0' as DispatchId })
    await expect(resolveInvocation(ground.layout, '20260128120500-b7')).rejects.toMatchObject({
      code: 'workspace.ambiguous',
      exitCode: 66,
      message: expect.stringContaining('20260128120500-b7d0'),
    })
  })

  test('two invocations may carry the same name', async () => {
    const [one, two] = [await start({ name: 'same' }), await start({ name: 'same' })]
    expect(one.invocation_id).not.toBe(two.invocation_id)
  })
})

describe('Broken Invocation Detection', () => {
  const entryOf = async (id: string) =>
    (await scanInvocations(ground.layout)).find((entry) => entry.id === id)

  test('meta.json exists but the sandbox tree is missing', async () => {
    const meta = await start()
    await rm(meta.sandbox_path, { recursive: true })
    expect(await entryOf(meta.invocation_id)).toMatchObject({
      broken: true,
      why: expect.stringContaining('missing'),
    })
  })

  test.each([
    ['missing', (path: string) => rm(path)],
    ['unparseable', (path: string) => writeFile(path, '{ "schema_version": ')],
    [
      'of another id',
      async (path: string) => {
        const text = await readFile(path, 'utf8')
        await writeFile(path, text.replace(/"invocation_id": "\d{14}/, '"invocation_id": "19990101000000'))
      },
    ],
  ])('the sandbox tree exists but meta.json is %s', async (_, spoil) => {
    const meta = await start()
    await spoil(ground.layout.invocationMeta(repoId(), meta.invocation_id))
    expect(await entryOf(meta.invocation_id)).toMatchObject({ broken: true, meta: null })
  })

  test('a meta.json that cannot be read is told as such, with what helps, and is whole again after that', async (context) => {
    if (process.getuid?.() === 0) context.skip('root may read everything')
    const meta = await start()
    const path = ground.layout.invocationMeta(repoId(), meta.invocation_id)
    await chmod(path, 0)
    const why = (await entryOf(meta.invocation_id))?.why
    expect(why).toBe(`its meta.json cannot be read (EACCES); what helps: chmod u+r ${path}`)
    await chmod(path, 0o600)
    expect((await entryOf(meta.invocation_id))?.broken).toBe(false)
  })

  test('a meta.json in whose place is something that cannot be read is not told as missing', async () => {
    const meta = await start()
    const path = ground.layout.invocationMeta(repoId(), meta.invocation_id)
    await rm(path)
    await mkdir(path)
    expect((await entryOf(meta.invocation_id))?.why).toBe('its meta.json cannot be read (EISDIR)')
  })

  test('N3: No auto-repair logic; it answers to its exact id only, and is never repaired by looking at it', async () => {
    const meta = await start()
    const path = ground.layout.invocationMeta(repoId(), meta.invocation_id)
    await writeFile(path, 'spoiled')
    const before = await fingerprint(ground.layout.dataDir)
    expect((await resolveInvocation(ground.layout, meta.invocation_id)).broken).toBe(true)
    await expect(resolveInvocation(ground.layout, meta.invocation_id.slice(0, 17))).rejects.toMatchObject({
      code: 'workspace.not_found',
    })
    await expect(enterInvocation(ground.layout, repoId(), meta.invocation_id, {})).rejects.toMatchObject({
      code: 'workspace.meta_unreadable',
    })
    expect(await fingerprint(ground.layout.dataDir)).toBe(before)
  })
})
