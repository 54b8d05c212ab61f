import { access, constants, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { configInReach, configLinkedBelow } from '../../base/obeyed.ts'
import { run } from '../../base/process.ts'

// What Node makes of bytes that are no UTF-8.
const replacement = '\u{FFFD}'
const notText = {
  detail: 'its path is not written in UTF-8, and no folder can be found by it',
  fix: 'Rename it, or the folder above it that is not.',
}

/** The roots are there, are folders and can be read. */
export async function checkReachable(root: string): Promise<CheckResult> {
  const name = `root ${root}`
  try {
    const facts = await stat(root)
    if (!facts.isDirectory()) {
      return { name, ok: false, detail: 'it is not a folder', fix: 'Name the folder that holds it.' }
    }
    await access(root, constants.R_OK | constants.X_OK)
    return { name, ok: true, detail: 'reachable', fix: null }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' && root.includes(replacement)) return { name, ok: false, ...notText }
    if (code === 'ENOENT') return { name, ok: false, detail: 'it does not exist', fix: 'Check its spelling.' }
    if (code === 'EACCES')
      return { name, ok: false, detail: 'you may not read it', fix: await waysToRead(root) }
    return { name, ok: false, detail: (error as Error).message, fix: null }
  }
}

/** Only a folder's owner can open it: to others the command would be refused as well. */
async function waysToRead(root: string): Promise<string> {
  const isOwn = await stat(root).then(
    ({ uid }) => uid === process.getuid?.(),
    () => false,
  )
  return isOwn ? `chmod u+rx '${root}'` : 'Choose another folder, or ask its owner to let you read it.'
}

/** A git folder is no project: what lands there are hooks and configuration that run by themselves. */
export function checkNotGitFolder(realPath: string): CheckResult {
  const inside = realPath.split('/').includes('.git')
  return {
    name: `git folder ${realPath}`,
    ok: !inside,
    detail: inside ? "it is git's own folder, or lies in it" : 'no',
    fix: inside ? 'Name the folder of the repository.' : null,
  }
}

/** The agent can only start in a folder it sees. */
export function checkWorkingDir(workingDir: string, roots: readonly string[]): CheckResult {
  const ok = roots.some((root) => workingDir === root || workingDir.startsWith(`${root}/`))
  return {
    name: `working directory ${workingDir}`,
    ok,
    detail: ok ? 'inside a root' : 'it lies outside of the roots',
    fix: ok ? null : 'Name a folder inside one of the roots, or add it to the roots.',
  }
}

/** `changeset: none` writes the real files: with our config among them, an agent could widen itself. */
export async function checkConfigApart(root: string, configDir: string): Promise<CheckResult> {
  const held = (await configInReach(root, configDir)) ?? (await configLinkedBelow(root, configDir))
  return {
    name: `config folder ${root}`,
    ok: held === null,
    detail: held === null ? 'apart' : `it holds Orangery's own config, ${held}`,
    fix: held === null ? null : 'Use the overlay strategy, or name a narrower folder.',
  }
}

const hasMarker = (folder: string) =>
  access(join(folder, '.agency', 'INTEGRATION_MARKER')).then(
    () => true,
    () => false,
  )

/** The integration tree a folder is in, or one that lies in it, as far as a short look finds it. */
async function integrationTreeAround(root: string): Promise<string | null> {
  for (let folder = root; ; folder = dirname(folder)) {
    if (await hasMarker(folder)) return folder
    if (folder === dirname(folder)) break
  }
  const tests = ['-name', 'INTEGRATION_MARKER', '-path', '*/.agency/*', '-print0', '-quit']
  const args = [root, '-xdev', '-maxdepth', '8', ...tests]
  const found = await run('find', args, { cwd: '/', timeoutMs: 5000 }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    throw new OrangeryError('preflight.no_find', 'find: not installed on this host', {
      kind: 'preflight',
      hint: 'sudo apt install findutils',
      cause: error,
    })
  })
  const marker = found.stdout.toString().split('\0')[0]
  return marker === undefined || marker === '' ? null : dirname(dirname(marker))
}

/** `changeset: none` writes the real files: never in a tree that agents must not write, or with one in it. */
export async function checkNoIntegrationMarker(root: string): Promise<CheckResult> {
  const tree = await integrationTreeAround(await realpath(root).catch(() => root))
  const which = tree === root ? 'this is' : `${tree ?? ''} is`
  return {
    name: `integration marker ${root}`,
    ok: tree === null,
    detail: tree === null ? 'none' : `${which} an integration tree: agents never write it directly`,
    fix: tree === null ? null : 'Use the overlay or worktree strategy.',
  }
}
