import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, extname, join, relative, sep } from 'node:path'
import { OrangeryError } from '../shared/errors.ts'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.wasm': 'application/wasm',
  '.json': 'application/json',
}

export type Asset = { readonly type: string; readonly immutable: boolean; read(): Promise<Buffer> }

/** The folder with our package.json, from the sources as well as from the build. */
export function packageRoot(): string {
  let folder = import.meta.dirname
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder)
  return folder
}

export const builtWindow = (): string => join(packageRoot(), 'out', 'renderer')

/**
 * Every file of the built window by its address. Requests are looked up here and never joined to a path, so there
 * is nothing to traverse. (escape: serve-path-traversal)
 */
export async function loadAssets(folder: string): Promise<ReadonlyMap<string, Asset>> {
  const assets = new Map<string, Asset>()
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const file = join(entry.parentPath, entry.name)
    const address = `/${relative(folder, file).split(sep).join('/')}`
    assets.set(address, {
      type: types[extname(file)] ?? 'application/octet-stream',
      immutable: address.startsWith('/assets/'),
      read: () => readFile(file),
    })
  }
  const index = assets.get('/index.html')
  if (index === undefined) {
    throw new OrangeryError('serve.not_built', `${folder}: the window has not been built`, {
      kind: 'cannot_create',
      hint: 'Run npm run build once.',
    })
  }
  return assets.set('/', index)
}
