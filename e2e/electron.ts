import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const program = process.platform === 'darwin' ? 'Electron.app/Contents/MacOS/Electron' : 'electron'

/** Electron's binary, or undefined where it cannot be had. */
export function electronProgram(): string | undefined {
  const override = process.env['ELECTRON_OVERRIDE_DIST_PATH']
  const folder = resolve(import.meta.dirname, '..', 'node_modules', 'electron')
  const pathFile = join(folder, 'path.txt')
  const path =
    override !== undefined
      ? join(override, program)
      : existsSync(pathFile)
        ? join(folder, 'dist', readFileSync(pathFile, 'utf8').trim())
        : undefined
  return path !== undefined && existsSync(path) ? path : undefined
}
