import type { IpcMainEvent, IpcMainInvokeEvent, WebContents } from 'electron'
import { windowOrigin } from './parts.ts'

/** The windows we opened ourselves; a message from anywhere else is not listened to. */
export class KnownWindows {
  readonly #ids = new Set<number>()

  add(contents: WebContents): void {
    this.#ids.add(contents.id)
    contents.once('destroyed', () => this.#ids.delete(contents.id))
  }

  /** A registered window, its main frame, and our own origin: a frame or a page that got in speaks to nobody. */
  admits({ sender, senderFrame }: IpcMainEvent | IpcMainInvokeEvent): boolean {
    if (senderFrame === null || !this.#ids.has(sender.id)) return false
    return senderFrame === sender.mainFrame && senderFrame.origin === windowOrigin
  }
}
