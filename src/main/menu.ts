import type { MenuItemConstructorOptions } from 'electron'

type MenuActions = { spawn(): void; showKeys(): void; developer: boolean; mac: boolean }

export function menuTemplate({ spawn, showKeys, developer, mac }: MenuActions): MenuItemConstructorOptions[] {
  return [
    ...(mac ? [{ role: 'appMenu' } as const] : []),
    {
      label: 'File',
      submenu: [
        { label: 'New Dispatch…', accelerator: 'CmdOrCtrl+N', click: spawn },
        { type: 'separator' },
        mac ? { role: 'close' } : { role: 'quit' },
      ],
    },
    { role: 'editMenu' },
    {
      label: 'View',
      submenu: [
        { role: 'resetZoom' },
        { role: 'zoomIn' },
        { role: 'zoomOut' },
        { type: 'separator' },
        { role: 'togglefullscreen' },
        ...(developer
          ? [{ type: 'separator' } as const, { role: 'reload' } as const, { role: 'toggleDevTools' } as const]
          : []),
      ],
    },
    { role: 'windowMenu' },
    { role: 'help', submenu: [{ label: 'Keys', click: showKeys }] },
  ]
}
