import type { Session, WebContents } from 'electron'
import { windowOrigin, type ElectronParts } from './parts.ts'

/** What the window asks of the browser around it: to copy a text its user chose to copy. Nothing else. */
const granted = new Set(['clipboard-sanitized-write'])

export function denyPermissions(session: Session): void {
  session.setPermissionRequestHandler((_contents, permission, answer) => answer(granted.has(permission)))
  session.setPermissionCheckHandler((_contents, permission) => granted.has(permission))
  session.setDevicePermissionHandler(() => false)
}

const isOurs = (url: string) => url === windowOrigin || url.startsWith(`${windowOrigin}/`)

/** The window stays where it is: a link in an agent's text must not lead it, or a new window, elsewhere. */
export function keepInPlace(contents: WebContents, { shell }: Pick<ElectronParts, 'shell'>): void {
  const stay = (event: { preventDefault(): void; url: string }) => {
    if (!isOurs(event.url)) event.preventDefault()
  }
  contents.on('will-navigate', stay)
  contents.on('will-redirect', stay)
  contents.on('will-attach-webview', (event) => event.preventDefault())
  contents.setWindowOpenHandler(({ url }) => {
    if (URL.canParse(url) && new URL(url).protocol === 'https:') void shell.openExternal(url)
    return { action: 'deny' }
  })
}
