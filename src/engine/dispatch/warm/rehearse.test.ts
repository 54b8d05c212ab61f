import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openParts } from '../openParts.ts'
import { rehearse } from './rehearse.ts'
import { sparePlaces } from '../../base/ownedScratch.ts'

const ownChildren = async () => {
  const list = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8').catch(() => '')
  return list.split(' ').filter(Boolean)
}

test('a rehearsal leads a dispatch of nobody to its end, and leaves no record, folder or process of it', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'orangery-rehearsal-'))
  try {
    await using parts = await openParts({ dataDir, configDir: join(dataDir, 'config') })
    const { overlay, bubblewrap } = await parts.host()
    const seen: string[] = []
    const before = await ownChildren()
    await rehearse(parts, { columns: 80, rows: 24 }, ({ type }) => void seen.push(type))
    if (overlay.ok && bubblewrap !== null) expect(seen).toContain('AgentEnded')
    expect(parts.store.dispatches.list({ limit: 10 })).toEqual([])
    expect(await readdir(sparePlaces(parts.layout)).catch(() => [])).toEqual([])
    expect(await readdir(parts.runtime)).toEqual([])
    expect((await ownChildren()).filter((pid) => !before.includes(pid))).toEqual([])
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
})
