import { tryGit } from '../../base/git.ts'
import type { SandboxRequest } from '../../base/sandbox.ts'
import { placedIn } from './hidePatterns.ts'

const mostNamed = 3

/** What hiding does not do, for who relies on it. */
export async function hideNotes({ hide, workspace, level }: SandboxRequest): Promise<readonly string[]> {
  if (hide.length === 0 || level === 0) return []
  const roots = workspace.roots.filter(({ access, role }) => access !== 'hidden' && role === 'project')
  const tracked = await Promise.all(
    roots.map(async (root) => {
      const globs = hide
        .flatMap((pattern) => placedIn(pattern, root))
        .flatMap(({ kind, glob }) => (kind === 'name' ? [glob, `*/${glob}`] : [glob]))
      if (globs.length === 0) return []
      const asked = ['ls-files', '-z', '--', ...globs.flatMap((glob) => [glob, `${glob}/*`])]
      const listed = await tryGit(asked, { cwd: root.path }).catch(() => null)
      return listed?.code === 0 ? listed.stdout.toString().split('\0').filter(Boolean) : []
    }),
  )
  const found = tracked.flat()
  const named = found.slice(0, mostNamed).join(', ')
  const more = found.length > mostNamed ? ` and ${found.length - mostNamed} more` : ''
  return [
    ...(found.length === 0
      ? []
      : [
          `hidden, but tracked by git: ${named}${more}. The agent can read what was committed of it (git show HEAD:${found[0]}), and git add -A, checkout and reset fail on it inside. What helps: git rm --cached, and its name in .gitignore.`,
        ]),
    ...(workspace.strategy === 'none'
      ? [
          'with changeset none a hidden file shows again once it is replaced on the host, as editors do that save by rename; an overlay or a copy hides it to the end.',
        ]
      : []),
  ]
}
