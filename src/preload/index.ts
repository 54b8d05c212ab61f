import { contextBridge, ipcRenderer } from 'electron'
import { ipcNames, type Bridge, type WindowCommand } from './bridge.ts'

// Only named functions cross; `ipcRenderer` itself, or its event objects, would hand the page every channel.
const bridge: Bridge = Object.freeze({
  platform: process.platform,
  send: (text: string) => ipcRenderer.send(ipcNames.fromWindow, text),
  onMessage: (listener: (text: string) => void) => {
    ipcRenderer.on(ipcNames.toWindow, (_event, text: string) => listener(text))
  },
  onClose: (listener: () => void) => {
    ipcRenderer.on(ipcNames.closed, () => listener())
  },
  onCommand: (listener: (command: WindowCommand) => void) => {
    ipcRenderer.on(ipcNames.command, (_event, command: WindowCommand) => listener(command))
  },
  chooseFolder: (startAt: string) =>
    ipcRenderer.invoke(ipcNames.chooseFolder, startAt) as Promise<string | null>,
})

contextBridge.exposeInMainWorld('orangery', bridge)
