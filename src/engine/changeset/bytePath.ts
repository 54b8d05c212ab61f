/**
 * A path as the file system has it: bytes, not text. Each character is one byte (latin1), so it can be split,
 * sorted and used as a key like a string, and names that are not UTF-8 survive. Relative to a root, `/`
 * between names, no leading or trailing one; the root itself is ''.
 */
export type BytePath = string & { readonly __brand: 'BytePath' }

export const rootPath = '' as BytePath

export function fromBytes(bytes: Uint8Array): BytePath {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1') as BytePath
}
export function toBytes(path: string): Buffer {
  return Buffer.from(path, 'latin1')
}
export function fromText(text: string): BytePath {
  return fromBytes(Buffer.from(text, 'utf8'))
}
/** What a person sees; bytes that are not UTF-8 become replacement characters. */
export function toText(path: BytePath): string {
  return toBytes(path).toString('utf8')
}
export function isUtf8(path: BytePath): boolean {
  return fromText(toText(path)) === path
}
/** A path as answers carry it: bytes that text cannot show come along. */
export function namedPath(path: BytePath): { path: string; path_b64?: string } {
  const text = { path: toText(path) }
  return isUtf8(path) ? text : { ...text, path_b64: toBytes(path).toString('base64') }
}
/** A path as a caller names it: by its text, or by its bytes where text cannot tell two apart. */
export type GivenPath = { readonly path?: string | undefined; readonly path_b64?: string | undefined }
export type GivenPlace = GivenPath & { readonly root?: string | undefined }
export function givenPath({ path = '', path_b64 }: GivenPath): BytePath {
  return path_b64 === undefined ? fromText(path) : fromBytes(Buffer.from(path_b64, 'base64'))
}
export function givenText(given: GivenPath): string {
  return toText(givenPath(given))
}
/** Whether somebody who says this means that path; by text alone one that only looks so is meant, too. */
export function isMeant(path: BytePath, given: GivenPath): boolean {
  return path === givenPath(given) || (given.path_b64 === undefined && toText(path) === given.path)
}
export function joinPath(parent: BytePath, name: string): BytePath {
  return (parent === '' ? name : `${parent}/${name}`) as BytePath
}
export function parentOf(path: BytePath): BytePath {
  const cut = path.lastIndexOf('/')
  return (cut === -1 ? '' : path.slice(0, cut)) as BytePath
}
/** Every folder above it, the nearest first, without the root. */
export function parentsOf(path: BytePath): BytePath[] {
  const found: BytePath[] = []
  for (let at = parentOf(path); at !== ''; at = parentOf(at)) found.push(at)
  return found
}
export function nameOf(path: BytePath): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
export function depthOf(path: BytePath): number {
  return path === '' ? 0 : path.split('/').length
}
export function isBelow(path: BytePath, folder: BytePath): boolean {
  return folder === '' ? path !== '' : path.startsWith(`${folder}/`)
}
