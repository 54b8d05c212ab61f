import { afterAll, beforeAll, expect, test } from 'vitest'
import { Theatre } from './testing.ts'

let theatre: Theatre
beforeAll(async () => {
  theatre = await Theatre.open()
})
afterAll(() => theatre[Symbol.asyncDispose]())

test('a yes to a level and one to a host of it, saved together, answer both the next time', async () => {
  const asked = { source: 'agent', by: 'agent', why: 'npm install' } as const
  for (const [to, scope] of [
    ['network', 'project'],
    ['full', 'task'],
    ['readwrite', 'user'],
  ] as const) {
    const { boundaries, id, project, live } = await theatre.stage('readonly')
    const wishes = [
      { ...asked, to, hosts: [] },
      { ...asked, to, hosts: ['a.test'] },
    ]
    for (const wish of wishes) await boundaries.request(id, wish)
    await boundaries.approve(id, { requests: null, by: 'person', message: '', scope })
    expect(live).toMatchObject({ level: to, hosts: ['a.test'] })

    const next = theatre.newId()
    theatre.addDispatch(next, project, 'readonly', 'claude', scope === 'task' ? id : null)
    for (const wish of wishes)
      expect(await boundaries.request(next, wish), `${scope}: ${to}`).toMatchObject({ status: 'approved' })
  }
})
