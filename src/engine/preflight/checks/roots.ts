import { access, constants, readFile, stat } from 'node:fs/promises'
import { isAbsolute, join, relative } from 'node:path'
import type { CheckResult } from '../../../shared/doctor.ts'

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
    if (code === 'ENOENT')
      return { name, ok: false, detail: 'it does not exist', fix: 'Check the spelling of --dir.' }
    if (code === 'EACCES')
      return { name, ok: false, detail: 'you may not read it', fix: `chmod u+rx '${root}'` }
    return { name, ok: false, detail: (error as Error).message, fix: null }
  }
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
    fix: ok ? null : 'Name a folder inside one of the roots, or add it with --dir.',
  }
}

/** `changeset: none` writes the real files: with our config among them, an agent could widen itself. */
export function checkConfigApart(root: string, configDir: string): CheckResult {
  const apart = relative(root, configDir)
  const holds = apart === '' || !(apart.startsWith('..') || isAbsolute(apart))
  return {
    name: `config folder ${root}`,
    ok: !holds,
    detail: holds ? `it holds Orangery's own config, ${configDir}` : 'apart',
    fix: holds ? 'Use --changeset overlay, or name a narrower folder.' : null,
  }
}

/** `changeset: none` writes the real files: never on a tree that agents must not write. */
export async function checkNoIntegrationMarker(root: string): Promise<CheckResult> {
  const marker = join(root, '.agency', 'INTEGRATION_MARKER')
  const found = await readFile(marker).then(
    () => true,
    () => false,
  )
  return {
    name: `integration marker ${root}`,
    ok: !found,
    detail: found ? 'this is an integration tree: agents never write it directly' : 'none',
    fix: found ? 'Use --changeset overlay or worktree.' : null,
  }
}
