import { statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { readSmallFile } from '../../base/files.ts'
import { minimalEnv, run } from '../../base/process.ts'

export type IdentitySettings = { readonly name?: string; readonly email?: string }

/** The user's name as git has it outside of repositories, and the files that says so, as they were. */
export type UserIdentity = {
  readonly settings: IdentitySettings
  readonly files: ReadonlyMap<string, string>
}

/** Where git looks for what belongs to the user, and nothing else of the environment. */
export function gitEnvironment(): Readonly<Record<string, string>> {
  const env: Record<string, string> = { ...minimalEnv }
  for (const name of ['HOME', 'XDG_CONFIG_HOME', 'GIT_CONFIG_GLOBAL', 'GIT_CONFIG_SYSTEM']) {
    const value = process.env[name]
    if (value !== undefined) env[name] = value
  }
  return env
}

/** Whom the environment names, as git reads it: ahead of all configuration. Null where it does not say both. */
export function identityFromEnvironment(
  env: NodeJS.ProcessEnv = process.env,
): Required<IdentitySettings> | null {
  for (const who of ['AUTHOR', 'COMMITTER']) {
    const [name = '', email = ''] = [env[`GIT_${who}_NAME`], env[`GIT_${who}_EMAIL`]]
    if (name !== '' && email !== '') return { name, email }
  }
  return null
}

/** Of `user.name` and `user.email` the last one counts, as it does for git. */
export function settingsFrom(entries: readonly string[]): IdentitySettings {
  const settings: { name?: string; email?: string } = {}
  for (const entry of entries) {
    const match = /^user\.(name|email)\n([^]*)$/.exec(entry)
    if (match !== null) settings[match[1] as 'name' | 'email'] = match[2] ?? ''
  }
  return settings
}

const home = () => process.env['HOME'] ?? homedir()

const usualFiles = () => [
  ...['GIT_CONFIG_GLOBAL', 'GIT_CONFIG_SYSTEM'].flatMap((name) => process.env[name] ?? []),
  '/etc/gitconfig',
  join(home(), '.gitconfig'),
  join(process.env['XDG_CONFIG_HOME'] ?? join(home(), '.config'), 'git', 'config'),
]

/** What tells one state of a file from another. */
function stamp(path: string): string {
  const facts = statSync(path, { bigint: true, throwIfNoEntry: false })
  return facts === undefined ? '' : `${facts.ino} ${facts.size} ${facts.mtimeNs} ${facts.ctimeNs}`
}

/** Null where it cannot be known without the repository: git may include files for some of them. */
export async function readUserIdentity(): Promise<UserIdentity | null> {
  // Before the files are read: what changes meanwhile is found to be different later.
  const files = new Map(usualFiles().map((path) => [path, stamp(path)]))
  const asked = ['config', '--includes', '-z', '--show-origin', '--list']
  const listed = await run('git', asked, { cwd: '/', env: gitEnvironment() }).catch(() => null)
  if (listed?.code !== 0) return null
  const words = listed.stdout.toString().split('\0')
  const entries: string[] = []
  for (let index = 0; index + 1 < words.length; index += 2) {
    const [origin = '', entry = ''] = [words[index], words[index + 1]]
    const file = /^file:(\/[^]*)$/.exec(origin)?.[1]
    if (file === undefined || /^includeif\./i.test(entry)) return null
    const included = /^include\.path\n([^]*)$/i.exec(entry)?.[1]
    for (const path of [file, ...(included === undefined ? [] : [pathOf(included, file)])])
      if (!files.has(path)) files.set(path, stamp(path))
    entries.push(entry)
  }
  return { settings: settingsFrom(entries), files }
}

const pathOf = (included: string, from: string) =>
  included.startsWith('~/') ? join(home(), included.slice(2)) : resolve(dirname(from), included)

/** What git would say in a repository or a plain folder, where that can be told without asking it: else null. */
export function identityIn(commonDir: string | null, known: UserIdentity): IdentitySettings | null {
  const config = commonDir === null ? '' : readSmallFile(join(commonDir, 'config'))
  if (config === null || /\[\s*(?:user|include)|worktreeconfig/i.test(config)) return null
  try {
    return [...known.files].every(([path, then]) => stamp(path) === then) ? known.settings : null
  } catch {
    return null
  }
}
