import { EventEmitter } from 'node:events'
import type { Engine } from '../engine/index.ts'
import type { Handlers } from '../shared/api.ts'
import { channelPair, connectClient, serveChannel } from '../shared/wire/index.ts'
import { windowOrigin, type ElectronParts } from './parts.ts'

/** As much of Electron as the shell uses, without a binary. It records what it was told and obeys nobody else. */
export class FakeContents extends EventEmitter {
  static next = 1
  readonly id = FakeContents.next++
  readonly mainFrame = { origin: windowOrigin }
  readonly sent: [string, unknown][] = []
  openHandler: ((details: { url: string }) => { action: string }) | undefined
  send = (name: string, value: unknown) => this.sent.push([name, value])
  isDestroyed = () => false
  setWindowOpenHandler(handler: (details: { url: string }) => { action: string }) {
    this.openHandler = handler
  }
}

export class FakeWindow extends EventEmitter {
  readonly options: { webPreferences: Record<string, unknown> }
  readonly webContents = new FakeContents()
  readonly loaded: string[] = []
  shown = 0
  constructor(options: FakeWindow['options']) {
    super()
    this.options = options
  }
  loadURL = async (url: string) => void this.loaded.push(url)
  show = () => void this.shown++
  focus = () => {}
  restore = () => {}
  isMinimized = () => false
}

export class FakeNotification extends EventEmitter {
  static readonly shown: FakeNotification[] = []
  static isSupported = () => true
  readonly options: { title: string; body: string }
  constructor(options: FakeNotification['options']) {
    super()
    this.options = options
  }
  closed = false
  show() {
    FakeNotification.shown.push(this)
  }
  close() {
    this.closed = true
  }
}

class FakeTray extends EventEmitter {
  tip = ''
  setToolTip = (text: string) => void (this.tip = text)
  menu: readonly { label?: string }[] = []
  setContextMenu = (menu: FakeTray['menu']) => void (this.menu = menu)
  setTitle = () => {}
  setImage = () => {}
}

export type FakeOptions = { readonly lock?: boolean }

export function fakeElectron({ lock = true }: FakeOptions = {}) {
  const windows: FakeWindow[] = []
  const app = Object.assign(new EventEmitter(), {
    isPackaged: true,
    quits: 0,
    exitCode: null as number | null,
    badge: 0,
    requestSingleInstanceLock: () => lock,
    whenReady: async () => {},
    quit: () => void app.quits++,
    exit: (code: number) => void (app.exitCode = code),
    setBadgeCount: (count: number) => void (app.badge = count),
  })
  const ipcHandlers = new Map<string, (event: unknown, ...args: unknown[]) => unknown>()
  const ipcMain = Object.assign(new EventEmitter(), {
    handle: (name: string, handler: (event: unknown, ...args: unknown[]) => unknown) =>
      ipcHandlers.set(name, handler),
  })
  const permissions: {
    request?: (contents: unknown, permission: string, answer: (granted: boolean) => void) => void
    check?: (contents: unknown, permission: string) => boolean
  } = {}
  let scheme: ((request: Request) => Promise<Response>) | undefined
  const errors: string[] = []
  const external: string[] = []
  const schemes: unknown[] = []
  const trays: FakeTray[] = []
  const parts = {
    app,
    BrowserWindow: class extends FakeWindow {
      constructor(options: FakeWindow['options']) {
        super(options)
        windows.push(this)
        app.emit('web-contents-created', {}, this.webContents)
      }
    },
    dialog: {
      showErrorBox: (title: string, text: string) => errors.push(`${title}\n${text}`),
      showOpenDialog: async () => ({ filePaths: ['/home/ada/shop'] }),
    },
    ipcMain,
    Menu: { buildFromTemplate: (template: unknown) => template, setApplicationMenu: () => {} },
    nativeImage: { createFromPath: (path: string) => path },
    nativeTheme: { shouldUseDarkColors: false },
    Notification: FakeNotification,
    protocol: {
      registerSchemesAsPrivileged: (list: unknown) => schemes.push(list),
      handle: (_name: string, handler: (request: Request) => Promise<Response>) => {
        scheme = handler
      },
    },
    session: {
      defaultSession: {
        setPermissionRequestHandler: (handler: typeof permissions.request) =>
          Object.assign(permissions, { request: handler }),
        setPermissionCheckHandler: (handler: typeof permissions.check) =>
          Object.assign(permissions, { check: handler }),
        setDevicePermissionHandler: () => {},
      },
    },
    shell: { openExternal: async (url: string) => void external.push(url) },
    Tray: class extends FakeTray {
      constructor() {
        super()
        trays.push(this)
      }
    },
  }
  return {
    electron: parts as unknown as ElectronParts,
    app,
    windows,
    ipcMain,
    ipcHandlers,
    permissions,
    errors,
    external,
    schemes,
    trays,
    ask: (url: string, method = 'GET') =>
      scheme?.({ url, method } as Request) ?? Promise.reject(new Error('no scheme')),
  }
}

export function fakeEngine(handlers: Partial<Handlers>): Engine & { closed: boolean; offered: boolean } {
  const [near, far] = channelPair()
  const all = handlers as Handlers
  serveChannel(all, far, { by: 'test' })
  const engine = {
    closed: false,
    offered: false,
    dataDir: '/nowhere',
    handlers: all,
    client: connectClient(near),
    runForeground: () => Promise.reject(new Error('not here')),
    offerToCommandLines: async () => void (engine.offered = true),
    close: async () => void (engine.closed = true),
    [Symbol.asyncDispose]: async () => {},
  }
  return engine
}
