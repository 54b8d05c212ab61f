import { named, showHidden } from '../text/visible.ts'

export type FilePatch = { readonly path: string; readonly text: string }

const escapes: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  t: 9,
  n: 10,
  v: 11,
  f: 12,
  r: 13,
  '"': 34,
  '\\': 92,
}

/** Git quotes names with bytes beyond plain text: `"a/na\303\257ve\n"`. */
export function unquote(name: string): string {
  if (!name.startsWith('"')) return name
  const bytes: number[] = []
  const inner = name.slice(1, name.lastIndexOf('"'))
  for (const [token] of inner.matchAll(/\\[0-3][0-7]{2}|\\.|[^\\]/gsu)) {
    if (!token.startsWith('\\')) bytes.push(...new TextEncoder().encode(token))
    else if (token.length === 4) bytes.push(Number.parseInt(token.slice(1), 8))
    else bytes.push(escapes[token.charAt(1)] ?? token.charCodeAt(1))
  }
  return new TextDecoder().decode(new Uint8Array(bytes))
}

const withoutSide = (name: string) => unquote(name).replace(/^[abciwo]\//, '')

/** The path a patch is about: where the content ends up, or where it was if it is gone. */
function pathOf(head: readonly string[]): string {
  const after = (prefix: string) => head.find((line) => line.startsWith(prefix))?.slice(prefix.length)
  const moved = after('rename to ') ?? after('copy to ')
  if (moved !== undefined) return unquote(moved)
  for (const prefix of ['+++ ', '--- ']) {
    // Git ends a name that holds a space with a tab.
    const name = after(prefix)?.replace(/\t$/, '')
    if (name !== undefined && name !== '/dev/null') return withoutSide(name)
  }
  const names = (head[0] ?? '').slice('diff --git '.length)
  const quoted = /^("(?:[^"\\]|\\.)*") /.exec(names)
  if (quoted?.[1] !== undefined) return withoutSide(quoted[1])
  // Neither renamed nor changed in content: both halves are the same name.
  return withoutSide(names.slice(0, (names.length - 1) / 2))
}

/** One patch per file. Lines of content start with a sign, so a header is never mistaken for one. */
export function splitPatch(text: string): readonly FilePatch[] {
  return text
    .split(/^(?=diff --git )/m)
    .filter((part) => part.startsWith('diff --git '))
    .map((part) => {
      const body = part.search(/^@@ /m)
      const head = (body === -1 ? part : part.slice(0, body)).split('\n')
      return { path: pathOf(head), text: part }
    })
}

// oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g
/**
 * The patch as it may be shown: nothing in a line hides, reorders or moves the cursor. Carriage returns at line ends
 * are left out only where every line has one; a change between line endings would otherwise look like no change.
 */
export function visiblePatch(text: string): string {
  const body = text.search(/^@@ /m)
  if (body === -1) return showHidden(text)
  const lines = text.slice(body).split('\n')
  const content = lines.filter((line) => /^[ +-]/.test(line))
  const allReturn = content.length > 0 && content.every((line) => line.endsWith('\r'))
  const shown = lines.map((line) => {
    const kept = allReturn && line.endsWith('\r') ? line.slice(0, -1) : line
    return showHidden(kept).replaceAll(controls, named)
  })
  return text.slice(0, body) + shown.join('\n')
}

/** Without the remarks that a file does not end with a newline. */
export const withoutEndNotes = (text: string): string =>
  text.replaceAll(/^\\ No newline at end of file\n?/gm, '')
