import { join } from 'node:path'
import type { BrowserWindow, Notification, Tray } from 'electron'
import { accountName } from '../engine/base/accountName.ts'
import type { Engine } from '../engine/index.ts'
import { ipcNames, type WindowCommand } from '../preload/bridge.ts'
import { builtWindow, loadAssets, packageRoot } from '../serve/index.ts'
import type { BoundaryLevel } from '../shared/boundary.ts'
import { reportError } from '../shared/errors.ts'
import { watchDispatches, type Notice } from './attention.ts'
import { denyPermissions, keepInPlace } from './guard.ts'
import { serveWindows } from './ipc.ts'
import { menuTemplate } from './menu.ts'
import { windowAddress, type ElectronParts } from './parts.ts'
import { answerScheme, registerScheme } from './protocol.ts'
import { KnownWindows } from './sender.ts'

export type DesktopOptions = {
  readonly electron: ElectronParts
  readonly openEngine: () => Promise<Engine>
  readonly assets?: string
  readonly onUnexpected?: (error: unknown) => void
}

const resource = (...names: string[]) => join(packageRoot(), 'resources', ...names)

/** The desktop app: a window, a tray and the engine behind them. False where another instance has the house. */
export async function startDesktop(options: DesktopOptions): Promise<boolean> {
  const { electron, onUnexpected = () => {} } = options
  const { app } = electron
  registerScheme(electron)
  if (!app.requestSingleInstanceLock()) {
    app.quit()
    return false
  }
  await app.whenReady()
  let engine: Engine
  try {
    engine = await options.openEngine()
  } catch (error) {
    const { message, hint } = reportError(error)
    electron.dialog.showErrorBox('Orangery cannot start', [message, hint].filter(Boolean).join('\n\n'))
    app.exit(1)
    return false
  }
  new Desktop(electron, engine, onUnexpected).open(await loadAssets(options.assets ?? builtWindow()))
  return true
}

class Desktop {
  readonly #electron: ElectronParts
  readonly #engine: Engine
  readonly #known = new KnownWindows()
  readonly #leaving = new AbortController()
  readonly #onUnexpected: (error: unknown) => void
  #window: BrowserWindow | null = null
  #tray: Tray | null = null
  #running = 0
  readonly #asking = new Map<string, Notification>()

  constructor(electron: ElectronParts, engine: Engine, onUnexpected: (error: unknown) => void) {
    this.#electron = electron
    this.#engine = engine
    this.#onUnexpected = onUnexpected
  }

  open(assets: Awaited<ReturnType<typeof loadAssets>>): void {
    const { app, ipcMain, session, Menu, dialog } = this.#electron
    answerScheme(this.#electron, assets)
    denyPermissions(session.defaultSession)
    app.on('web-contents-created', (_event, contents) => keepInPlace(contents, this.#electron))
    app.on('second-instance', () => this.#show())
    app.on('activate', () => this.#show())
    // With something running the house stays open, in the tray.
    app.on('window-all-closed', () => {
      if (this.#running === 0 && process.platform !== 'darwin') app.quit()
    })
    app.on('before-quit', (event) => this.#leave(event))

    const caller = { by: accountName() }
    serveWindows(this.#electron, this.#known, this.#engine.handlers, caller, this.#onUnexpected)
    ipcMain.handle(ipcNames.chooseFolder, async (event, startAt: unknown) => {
      if (!this.#known.admits(event) || this.#window === null) return null
      const { filePaths } = await dialog.showOpenDialog(this.#window, {
        properties: ['openDirectory', 'createDirectory'],
        ...(typeof startAt === 'string' ? { defaultPath: startAt } : {}),
      })
      return filePaths[0] ?? null
    })
    Menu.setApplicationMenu(
      Menu.buildFromTemplate(
        menuTemplate({
          spawn: () => this.#command('spawn'),
          showKeys: () => this.#command('keys'),
          developer: !app.isPackaged,
          mac: process.platform === 'darwin',
        }),
      ),
    )
    this.#openTray()
    this.#show()
    void this.#engine.offerToCommandLines().catch(this.#onUnexpected)
    watchDispatches(this.#engine.client, this.#leaving.signal, {
      tell: (notice) => this.#tell(notice),
      settled: (requests) => this.#withdraw(requests),
      count: (counts) => this.#count(counts),
      failed: this.#onUnexpected,
    }).catch(this.#onUnexpected)
  }

  #show(place = ''): void {
    if (this.#window === null) this.#window = this.#makeWindow(place)
    else {
      if (this.#window.isMinimized()) this.#window.restore()
      if (place !== '') void this.#window.loadURL(windowAddress(place))
      this.#window.show()
      this.#window.focus()
    }
  }

  #makeWindow(place: string): BrowserWindow {
    const { BrowserWindow, nativeTheme } = this.#electron
    const window = new BrowserWindow({
      width: 1280,
      height: 832,
      minWidth: 420,
      minHeight: 480,
      show: false,
      title: 'Orangery',
      icon: resource('icons', 'app-256.png'),
      // The canvas of the window's own tokens, so that opening does not flash.
      backgroundColor: nativeTheme.shouldUseDarkColors ? '#0b0e10' : '#ebf0f2',
      titleBarStyle: process.platform === 'darwin' ? 'hiddenInset' : 'default',
      autoHideMenuBar: true,
      webPreferences: {
        preload: join(packageRoot(), 'out', 'preload', 'index.cjs'),
        contextIsolation: true,
        sandbox: true,
        nodeIntegration: false,
        webviewTag: false,
        spellcheck: false,
        navigateOnDragDrop: false,
      },
    })
    this.#known.add(window.webContents)
    window.once('ready-to-show', () => window.show())
    window.on('closed', () => {
      this.#window = null
    })
    void window.loadURL(windowAddress(place))
    return window
  }

  #command(command: WindowCommand): void {
    this.#show()
    this.#window?.webContents.send(ipcNames.command, command)
  }

  #openTray(): void {
    const { Tray } = this.#electron
    this.#tray = new Tray(this.#trayImage(false))
    this.#tray.on('click', () => this.#show())
    this.#countInTray(0)
  }

  /** Not every desktop shows a badge: the number is also in the menu, the tip and, on a Mac, beside the icon. */
  #countInTray(waiting: number): void {
    const { Menu } = this.#electron
    const count = waiting === 0 ? '' : ` (${waiting})`
    this.#tray?.setContextMenu(
      Menu.buildFromTemplate([
        { label: 'Open Orangery', click: () => this.#show() },
        { label: `Waiting for You${count}`, click: () => this.#show('#/') },
        { label: 'New Dispatch…', click: () => this.#command('spawn') },
        { type: 'separator' },
        { role: 'quit' },
      ]),
    )
    if (process.platform === 'darwin') this.#tray?.setTitle(waiting === 0 ? '' : String(waiting))
    this.#tray?.setToolTip(waiting === 0 ? 'Orangery' : `Orangery: ${waiting} waiting for you`)
  }

  #trayImage(attention: boolean) {
    const name =
      process.platform === 'darwin' && !attention ? 'trayTemplate' : attention ? 'tray-attention' : 'tray'
    return this.#electron.nativeImage.createFromPath(resource('icons', `${name}.png`))
  }

  #count({ waiting, running }: { waiting: number; running: number }): void {
    this.#running = running
    this.#tray?.setImage(this.#trayImage(waiting > 0))
    this.#countInTray(waiting)
    this.#electron.app.setBadgeCount(waiting)
  }

  #tell({ id, title, body, request, isAnswerable = false, shown = 'readonly' }: Notice): void {
    const { Notification } = this.#electron
    if (!Notification.isSupported()) return
    const notification = new Notification({
      title,
      body,
      icon: resource('icons', 'app-256.png'),
      ...(!isAnswerable
        ? {}
        : {
            actions: [
              { type: 'button', text: 'Allow once' },
              { type: 'button', text: 'Deny' },
            ],
          }),
    })
    const place = id === null ? '#/inbox' : `#/dispatch/${encodeURIComponent(id)}`
    notification.on('click', () => this.#show(place))
    notification.on('action', (_event, index) => {
      if (isAnswerable && request !== undefined && id !== null)
        void this.#answer(id, request, index === 0 ? shown : null)
    })
    if (request !== undefined) this.#asking.set(request, notification)
    notification.show()
  }

  /** What was answered elsewhere, or by nobody in time, cannot be answered here any more. */
  #withdraw(requests: readonly string[]): void {
    for (const request of requests) {
      this.#asking.get(request)?.close()
      this.#asking.delete(request)
    }
  }

  /** `shown`: the boundary that a yes speaks from; null: it is a no. */
  async #answer(id: string, request: string, shown: BoundaryLevel | null): Promise<void> {
    try {
      if (shown !== null) await this.#engine.client.call('boundary.approve', { id, request, shown })
      else await this.#engine.client.call('boundary.deny', { id, request })
    } catch (error) {
      // Who pressed a button must not believe that it took.
      this.#tell({ id, title: 'It was not answered', body: reportError(error).message })
    }
  }

  #leave(event: { preventDefault(): void }): void {
    if (this.#leaving.signal.aborted) return
    event.preventDefault()
    this.#leaving.abort()
    this.#engine
      .close()
      .catch(this.#onUnexpected)
      .finally(() => this.#electron.app.quit())
  }
}
