/** What a menu or the tray asks the window to do. */
export const windowCommands = ['spawn', 'keys'] as const
export type WindowCommand = (typeof windowCommands)[number]

/** The one object the desktop window finds on `window`. Everything else goes through the contract. */
export type Bridge = {
  readonly platform: string
  /** Texts of the wire protocol, to and from the main process. */
  readonly send: (text: string) => void
  readonly onMessage: (listener: (text: string) => void) => void
  readonly onClose: (listener: () => void) => void
  readonly onCommand: (listener: (command: WindowCommand) => void) => void
  /** The system's own folder dialog; null when the person thought better of it. */
  readonly chooseFolder: (startAt: string) => Promise<string | null>
}

export const ipcNames = {
  fromWindow: 'orangery:from-window',
  toWindow: 'orangery:to-window',
  closed: 'orangery:closed',
  command: 'orangery:command',
  chooseFolder: 'orangery:choose-folder',
} as const
