import type { WebSocket } from 'ws'
import type { Channel } from '../shared/wire/index.ts'

export function webSocketChannel(socket: WebSocket): Channel {
  return {
    send(text) {
      if (socket.readyState === socket.OPEN) socket.send(text)
    },
    onMessage(listener) {
      socket.on('message', (data, isBinary) => {
        // The contract is text; anything else is not one of our windows.
        if (isBinary) socket.close(1003)
        else listener(data.toString())
      })
    },
    onClose(listener) {
      socket.on('close', listener)
    },
    close: () => socket.close(),
  }
}
