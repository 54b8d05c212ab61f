import type { WebContents } from 'electron'
import { ipcNames } from '../preload/bridge.ts'
import type { Caller, Handlers } from '../shared/api.ts'
import { serveChannel, type Channel } from '../shared/wire/index.ts'
import type { ElectronParts } from './parts.ts'
import type { KnownWindows } from './sender.ts'

type OpenChannel = { readonly channel: Channel; receive(text: string): void; end(): void }

function channelTo(contents: WebContents, onEnd: () => void): OpenChannel {
  let receive: (text: string) => void = () => {}
  let closed: () => void = () => {}
  let open = true
  const end = () => {
    if (!open) return
    open = false
    closed()
    onEnd()
  }
  const channel: Channel = {
    send: (text) => {
      if (open && !contents.isDestroyed()) contents.send(ipcNames.toWindow, text)
    },
    onMessage: (listener) => {
      receive = listener
    },
    onClose: (listener) => {
      closed = listener
    },
    close: () => {
      if (open && !contents.isDestroyed()) contents.send(ipcNames.closed)
      end()
    },
  }
  return { channel, receive: (text) => receive(text), end }
}

/** The contract over Electron's IPC: one channel per page; a page that is gone takes its streams with it. */
export function serveWindows(
  { ipcMain }: Pick<ElectronParts, 'ipcMain'>,
  known: KnownWindows,
  handlers: Handlers,
  caller: Caller,
  onUnexpected: (error: unknown) => void,
): void {
  const channels = new Map<number, OpenChannel>()

  function open(contents: WebContents): OpenChannel {
    const opened = channelTo(contents, () => channels.delete(contents.id))
    channels.set(contents.id, opened)
    contents.once('destroyed', opened.end)
    contents.once('render-process-gone', opened.end)
    contents.once('did-navigate', opened.end)
    serveChannel(handlers, opened.channel, caller, onUnexpected)
    return opened
  }

  ipcMain.on(ipcNames.fromWindow, (event, text: unknown) => {
    if (!known.admits(event) || typeof text !== 'string') return
    const channel = channels.get(event.sender.id) ?? open(event.sender)
    channel.receive(text)
  })
}
