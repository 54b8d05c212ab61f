import type * as Electron from 'electron'

/** What of Electron this shell uses; tests hand in a small fake of exactly this. */
export type ElectronParts = Pick<
  typeof Electron,
  | 'app'
  | 'BrowserWindow'
  | 'dialog'
  | 'ipcMain'
  | 'Menu'
  | 'nativeImage'
  | 'nativeTheme'
  | 'Notification'
  | 'protocol'
  | 'session'
  | 'shell'
  | 'Tray'
>

export const windowOrigin = 'app://orangery'
export const windowAddress = (place = ''): string => `${windowOrigin}/${place}`
