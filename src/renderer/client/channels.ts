import type { Channel } from '../../shared/wire/index.ts'
import type { Bridge } from '../../preload/bridge.ts'

declare global {
  interface Window {
    readonly orangery?: Bridge
  }
}

/** To the main process of the desktop app. */
export function bridgeChannel(bridge: Bridge): Promise<Channel> {
  return Promise.resolve({
    send: bridge.send,
    onMessage: bridge.onMessage,
    onClose: bridge.onClose,
    close: () => {},
  })
}

/** To `orangery serve`, which this page came from. */
export function webSocketChannel(): Promise<Channel> {
  const url = new URL('/wire', window.location.href)
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  const socket = new WebSocket(url)
  return new Promise((resolve, reject) => {
    socket.addEventListener('close', () => reject(new Error('the connection was refused')), { once: true })
    socket.addEventListener(
      'open',
      () =>
        resolve({
          send: (text) => socket.send(text),
          onMessage: (listener) =>
            socket.addEventListener('message', (event) => listener(event.data as string)),
          onClose: (listener) => socket.addEventListener('close', listener, { once: true }),
          close: () => socket.close(),
        }),
      { once: true },
    )
  })
}

export const openChannel = (): Promise<Channel> =>
  window.orangery === undefined ? webSocketChannel() : bridgeChannel(window.orangery)
