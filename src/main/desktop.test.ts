import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { ipcNames } from '../preload/bridge.ts'
import type { Handlers } from '../shared/api.ts'
import type { BoundaryLevel } from '../shared/boundary.ts'
import type { DispatchRow } from '../shared/dispatch.ts'
import { OrangeryError } from '../shared/errors.ts'
import { noticeOf, noticeOfRequest } from './attention.ts'
import { startDesktop } from './desktop.ts'
import { fakeElectron, fakeEngine, FakeNotification, type FakeContents } from './fixture.ts'
import { windowOrigin } from './parts.ts'

let assets: string
beforeAll(() => {
  assets = mkdtempSync(join(tmpdir(), 'orangery-main-'))
  mkdirSync(join(assets, 'assets'))
  writeFileSync(join(assets, 'index.html'), '<title>the window</title>')
})
afterAll(() => rmSync(assets, { recursive: true, force: true }))
beforeEach(() => void FakeNotification.shown.splice(0))

const row = (over: Partial<DispatchRow>): DispatchRow =>
  ({
    id: '20260128120500-b7c9',
    name: 'tests',
    prompt: null,
    command: [],
    status: 'running',
    error: null,
    changeset: null,
    ...over,
  }) as DispatchRow

function engineWith(rows: () => DispatchRow[], changed: () => AsyncIterable<{ ids: string[] }>) {
  return fakeEngine({
    'dispatch.list': async () => rows(),
    'boundary.inbox': async () => [],
    'host.info': async () => ({
      version: '1',
      data_dir: '/d',
      platform: 'linux',
      home: '/h',
      host: 'desktop',
    }),
    changes: changed as Handlers['changes'],
  })
}
const never = async function* () {
  await new Promise(() => {})
  yield { ids: [] }
}

async function start(engine = engineWith(() => [], never)) {
  const fake = fakeElectron()
  await startDesktop({ electron: fake.electron, openEngine: async () => engine, assets })
  const window = fake.windows[0]!
  return { ...fake, window, contents: window.webContents, engine }
}
const say = (ipcMain: { emit(name: string, ...args: unknown[]): boolean }, event: unknown, message: object) =>
  ipcMain.emit(ipcNames.fromWindow, event, JSON.stringify(message))
const from = (contents: FakeContents, frame: unknown = contents.mainFrame) => ({
  sender: contents,
  senderFrame: frame,
})
const call = { id: 1, call: 'dispatch.list', input: {} }

test('the window is isolated, sandboxed and without Node', async () => {
  const { window } = await start()
  expect(window.options.webPreferences).toMatchObject({
    contextIsolation: true,
    sandbox: true,
    nodeIntegration: false,
    webviewTag: false,
  })
  expect(window.options.webPreferences['preload']).toMatch(/out\/preload\/index\.cjs$/)
  expect(window.loaded).toEqual([`${windowOrigin}/`])
})

test('our window is answered over IPC', async () => {
  const { ipcMain, contents } = await start()
  say(ipcMain, from(contents), call)
  await vi.waitFor(() => expect(contents.sent).toEqual([[ipcNames.toWindow, '{"id":1,"ok":[]}']]))
})

test.each([
  [
    'a window nobody registered',
    (ours: FakeContents) => from(Object.assign(Object.create(ours) as FakeContents, { id: 999_999 })),
  ],
  ['a frame inside our window', (ours: FakeContents) => from(ours, { origin: windowOrigin })],
  ['a frame that is already gone', (ours: FakeContents) => from(ours, null)],
])('%s is not answered', async (_name, eventOf) => {
  const { ipcMain, contents } = await start()
  say(ipcMain, eventOf(contents), call)
  await new Promise((resolve) => setTimeout(resolve, 30))
  expect(contents.sent).toEqual([])
})

test('our window is not answered once it shows another origin', async () => {
  const { ipcMain, ipcHandlers, contents } = await start()
  contents.mainFrame.origin = 'https://evil.example'
  say(ipcMain, from(contents), call)
  await new Promise((resolve) => setTimeout(resolve, 30))
  expect(contents.sent).toEqual([])
  expect(await ipcHandlers.get(ipcNames.chooseFolder)?.(from(contents), '/')).toBeNull()
  contents.mainFrame.origin = windowOrigin
  expect(await ipcHandlers.get(ipcNames.chooseFolder)?.(from(contents), '/')).toBe('/home/ada/shop')
})

test('a page that is reloaded or crashes takes its streams with it', async () => {
  let ended = 0
  const engine = engineWith(
    () => [],
    async function* (_input?: unknown, signal?: AbortSignal) {
      await new Promise((resolve) => signal?.addEventListener('abort', resolve))
      ended++
      yield { ids: [] }
    },
  )
  const { ipcMain, contents } = await start(engine)
  say(ipcMain, from(contents), { id: 1, open: 'changes', input: {} })
  contents.emit('render-process-gone')
  await vi.waitFor(() => expect(ended).toBe(1))
  say(ipcMain, from(contents), call)
  await vi.waitFor(() => expect(contents.sent).toHaveLength(1))
})

test('the window cannot be led elsewhere, and only https opens in the browser', async () => {
  const { contents, external } = await start()
  const leaving = { url: 'https://evil.example/', preventDefault: vi.fn() }
  contents.emit('will-navigate', leaving)
  expect(leaving.preventDefault).toHaveBeenCalledOnce()
  const lookalike = { url: `${windowOrigin}.evil.example/`, preventDefault: vi.fn() }
  contents.emit('will-navigate', lookalike)
  expect(lookalike.preventDefault).toHaveBeenCalledOnce()
  const staying = { url: `${windowOrigin}/#/computer`, preventDefault: vi.fn() }
  contents.emit('will-navigate', staying)
  expect(staying.preventDefault).not.toHaveBeenCalled()
  for (const url of ['https://example.com/', 'file:///etc/passwd', 'javascript:alert(1)', 'nonsense']) {
    expect(contents.openHandler?.({ url })).toEqual({ action: 'deny' })
  }
  expect(external).toEqual(['https://example.com/'])
})

test('every permission but copying is denied', async () => {
  const { permissions } = await start()
  const answers = ['media', 'geolocation', 'notifications', 'clipboard-read', 'openExternal'].map(
    (permission) => {
      let answer: boolean | undefined
      permissions.request?.({}, permission, (granted) => (answer = granted))
      return [answer, permissions.check?.({}, permission)]
    },
  )
  expect(answers.flat()).not.toContain(true)
  expect(permissions.check?.({}, 'clipboard-sanitized-write')).toBe(true)
})

test('the scheme serves the built window with its policy and nothing else', async () => {
  const { ask } = await start()
  const page = await ask(`${windowOrigin}/`)
  expect(await page.text()).toContain('the window')
  expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
  expect((await ask(`${windowOrigin}/../../etc/passwd`)).status).toBe(404)
  expect((await ask('app://elsewhere/')).status).toBe(404)
  expect((await ask(`${windowOrigin}/`, 'POST')).status).toBe(404)
})

test('a second instance leaves at once and brings the first to the front', async () => {
  const second = fakeElectron({ lock: false })
  const openEngine = vi.fn()
  expect(await startDesktop({ electron: second.electron, openEngine, assets })).toBe(false)
  expect(second.app.quits).toBe(1)
  expect(openEngine).not.toHaveBeenCalled()
  const first = await start()
  first.app.emit('second-instance')
  expect(first.window.shown).toBe(1)
  expect(first.windows).toHaveLength(1)
})

test('an engine that cannot open is said in words, and the app ends', async () => {
  const fake = fakeElectron()
  const openEngine = async () => {
    throw new OrangeryError('store.newer', 'orangery.db: was written by a newer Orangery', {
      hint: 'Update.',
    })
  }
  expect(await startDesktop({ electron: fake.electron, openEngine, assets })).toBe(false)
  expect(fake.errors[0]).toContain('was written by a newer Orangery\n\nUpdate.')
  expect(fake.app.exitCode).toBe(1)
  expect(fake.windows).toHaveLength(0)
})

test('a preflight failure is notified, and a click leads to it', async () => {
  let rows: DispatchRow[] = []
  let change: () => void = () => {}
  const engine = engineWith(
    () => rows,
    async function* () {
      await new Promise<void>((resolve) => (change = resolve))
      yield { ids: ['x'] }
      await new Promise(() => {})
    },
  )
  const { window } = await start(engine)
  await new Promise((resolve) => setTimeout(resolve, 20))
  rows = [row({ status: 'preflight_failed', error: 'vm: no runtime' })]
  change()
  await vi.waitFor(() => expect(FakeNotification.shown).toHaveLength(1))
  expect(FakeNotification.shown[0]?.options).toMatchObject({
    title: 'It did not start',
    body: 'tests\nvm: no runtime',
  })
  FakeNotification.shown[0]?.emit('click')
  expect(window.loaded.at(-1)).toBe(`${windowOrigin}/#/dispatch/20260128120500-b7c9`)
})

test('the tray and the badge count only what needs a person', async () => {
  const waiting = { changeset: { id: 'x', state: 'review', files: 2, insertions: 1, deletions: 1 } } as never
  const engine = engineWith(
    () => [row({ status: 'completed', ...(waiting as object) }), row({ status: 'running' })],
    never,
  )
  const { app, trays } = await start(engine)
  await vi.waitFor(() => expect(app.badge).toBe(1))
  expect(trays[0]?.tip).toBe('Orangery: 1 waiting for you')
  expect(trays[0]?.menu.map(({ label }) => label)).toContain('Waiting for You (1)')
  app.emit('window-all-closed')
  expect(app.quits).toBe(0)
})

test('leaving closes the engine first, then quits', async () => {
  const { app, engine } = await start()
  const event = { preventDefault: vi.fn() }
  app.emit('before-quit', event)
  expect(event.preventDefault).toHaveBeenCalledOnce()
  await vi.waitFor(() => expect(app.quits).toBe(1))
  expect(engine.closed).toBe(true)
  const again = { preventDefault: vi.fn() }
  app.emit('before-quit', again)
  expect(again.preventDefault).not.toHaveBeenCalled()
})

test('what had ended before we looked is news to nobody', () => {
  const ended = row({ status: 'completed', changeset: { state: 'review', files: 3 } as never })
  expect(noticeOf(undefined, ended)).toBeNull()
  expect(noticeOf(row({}), ended)).toMatchObject({ title: 'Waiting for your review' })
  expect(noticeOf(ended, ended)).toBeNull()
})

const request = (id: string, more: object = {}) => ({
  id,
  dispatch: '20260128120500-b7c9',
  to: 'network',
  hosts: ['registry.test:443'],
  why: 'registry.test:443 was denied',
  expires_at: new Date(Date.now() + 600_000).toISOString(),
  ...more,
})

/** An engine whose inbox is what the test says, and whose next change comes when the test says. */
function engineThatAsks(approve: (input: unknown) => unknown = () => []) {
  const changes: (() => void)[] = []
  const inbox = { open: [] as ReturnType<typeof request>[] }
  const isOpen = ({ expires_at: at }: { expires_at: string }) => Date.parse(at) > Date.now()
  const engine = fakeEngine({
    'dispatch.list': async () => [row({ boundary: 'readwrite' })],
    'boundary.inbox': (async () => inbox.open.filter(isOpen)) as unknown as Handlers['boundary.inbox'],
    'boundary.approve': (async (input: unknown) => approve(input)) as unknown as Handlers['boundary.approve'],
    changes: async function* () {
      while (true) {
        await new Promise<void>((resolve) => changes.push(resolve))
        yield { ids: [] }
      }
    },
  })
  const change = async (open: ReturnType<typeof request>[]) => {
    const seen = changes.length
    inbox.open = open
    changes.at(-1)?.()
    await vi.waitFor(() => expect(changes).toHaveLength(seen + 1))
  }
  const ready = () => vi.waitFor(() => expect(changes).toHaveLength(1))
  return { engine, change, ready }
}

test('a request is notified once, can be answered from the notification, and goes with its answer', async () => {
  const answered: unknown[] = []
  const { engine, change, ready } = engineThatAsks((input) => {
    answered.push(input)
    return []
  })
  const { app } = await start(engine)
  await ready()
  await change([request('r1')])
  await change([request('r1')])
  await vi.waitFor(() => expect(FakeNotification.shown).toHaveLength(1))
  expect(app.badge).toBe(1)
  const [shown] = FakeNotification.shown
  expect(shown?.options).toMatchObject({ title: 'Asks for network', actions: [{}, {}] })
  expect(shown?.options.body).toContain('Reach registry.test:443')
  shown?.emit('action', {}, 0)
  await vi.waitFor(() =>
    expect(answered).toMatchObject([{ request: 'r1', scope: 'once', shown: 'readwrite' }]),
  )
  await change([])
  expect(shown?.closed).toBe(true)
  expect(app.badge).toBe(0)
})

test('a flood of requests is one notification, which leads to all of them', async () => {
  const { engine, change, ready } = engineThatAsks()
  const { window, app } = await start(engine)
  await ready()
  await change(Array.from({ length: 100 }, (_, at) => request(`r${at}`, { dispatch: `d${at % 10}` })))
  await vi.waitFor(() => expect(FakeNotification.shown).toHaveLength(1))
  expect(FakeNotification.shown[0]?.options).toMatchObject({
    title: '100 requests wait for you',
    body: '10 agents ask for more.',
  })
  expect(app.badge).toBe(100)
  FakeNotification.shown[0]?.emit('click')
  expect(window.loaded.at(-1)).toBe(`${windowOrigin}/#/inbox`)
})

test('what an agent wrote into a request is shown for what it is, and cut', async () => {
  const { engine, change, ready } = engineThatAsks()
  await start(engine)
  await ready()
  await change([request('r1', { hosts: ['a\u202ebc'], why: `\u001b[2J<b>x</b>${'y'.repeat(5000)}` })])
  await vi.waitFor(() => expect(FakeNotification.shown).toHaveLength(1))
  const { body } = FakeNotification.shown[0]!.options
  expect(body).toContain('Reach a‹U+202E›bc')
  expect(body).toContain('‹ESC›[2J<b>x</b>')
  expect(body.length).toBeLessThan(500)
})

test('a notification with buttons names the level and every host, and one with no room for them has no buttons (escape: unnamed-level)', () => {
  const ask = (boundary: BoundaryLevel, more: object) =>
    noticeOfRequest(request('r1', more) as never, row({ boundary }))
  const full = ask('readonly', { to: 'full', hosts: ['registry.test:443'], why: 'npm install' })
  expect(full).toMatchObject({ title: 'Asks for full', isAnswerable: true })
  expect(full.body.split('\n')[0]).toBe(
    'Write in its folders, into the changeset; Reach registry.test:443; ' +
      'Everything its sandbox level permits, any host included',
  )
  const network = ask('readonly', { to: 'network' })
  expect(network.body).toContain('Write in its folders')
  const more = ask('readonly', { to: 'readonly' })
  expect(more).toMatchObject({ title: 'Asks for hosts at readonly', isAnswerable: true })
  expect(more.body).toContain('Reach registry.test:443')
  const lower = ask('full', { to: 'network' })
  expect(lower).toMatchObject({ title: 'Asks for hosts at full', isAnswerable: true })
  expect(lower.body.split('\n')[0]).toBe('Reach registry.test:443')
  const all = ask('full', { to: 'full', hosts: [] })
  expect(all.title).toBe('Asks for full')
  expect(all.body).toContain('any host included')
  const many = ask('network', { hosts: Array.from({ length: 20 }, (_, at) => `host-${at}.test:443`) })
  expect(many).toMatchObject({ isAnswerable: false, request: 'r1' })
  expect(many.body).toContain('Open to see all of it')
})

test('a request that nobody answers leaves the badge when it expires, and an answer that came too late is said', async () => {
  const { engine, change, ready } = engineThatAsks(() => {
    throw new OrangeryError('boundary.answered', 'request r1: it is expired already', { kind: 'busy' })
  })
  const { app } = await start(engine)
  await ready()
  await change([request('r1', { expires_at: new Date(Date.now() + 300).toISOString() })])
  await vi.waitFor(() => expect(FakeNotification.shown).toHaveLength(1))
  await vi.waitFor(() => expect(app.badge).toBe(0), { timeout: 5_000 })
  FakeNotification.shown[0]?.emit('action', {}, 0)
  await vi.waitFor(() => expect(FakeNotification.shown).toHaveLength(2))
  expect(FakeNotification.shown[1]?.options).toMatchObject({
    title: 'It was not answered',
    body: 'request r1: it is expired already',
  })
})
