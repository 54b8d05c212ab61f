import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../base/process.ts'
import {
  gitEnvironment,
  identityFromEnvironment,
  identityIn,
  settingsFrom,
  type IdentitySettings,
  type UserIdentity,
} from './userIdentity.ts'

/**
 * Lets an agent commit as its user: name and address, as the user's own git sees them in this root, go into
 * the agent's home, and nothing else of the user's configuration. What the agent has there already stays. Gives the
 * files as they are meant, by name.
 */
export async function giveIdentity(
  home: string,
  root: string,
  /** Spares asking git, where it would say the same. */
  known: { readonly user: UserIdentity; readonly commonDir: string | null } | null = null,
): Promise<Readonly<Record<string, string>>> {
  const settings =
    identityFromEnvironment() ?? (known === null ? null : identityIn(known.commonDir, known.user))
  const config = identityConfig(settings ?? (await readIdentity(root)))
  if (config === '') return {}
  // Exclusive: in a home that is kept, the agent may have put a link there.
  await writeFile(join(home, '.gitconfig'), config, { flag: 'wx', mode: 0o600 }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    },
  )
  return { '.gitconfig': config }
}

/** Reading configuration runs nothing. */
async function readIdentity(cwd: string): Promise<IdentitySettings> {
  const asked = ['config', '--includes', '-z', '--get-regexp', '^user\\.(name|email)$']
  const listed = await run('git', asked, { cwd, env: gitEnvironment() }).catch(() => null)
  return settingsFrom(listed?.stdout.toString().split('\0') ?? [])
}

/** Pure. */
export function identityConfig(settings: IdentitySettings): string {
  const lines = (['name', 'email'] as const).flatMap((key) => {
    const value = settings[key]
    return value === undefined || value === '' ? [] : [`\t${key} = ${quoted(value)}\n`]
  })
  return lines.length === 0 ? '' : `[user]\n${lines.join('')}`
}

const quoted = (value: string): string =>
  `"${value.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\n').replaceAll('\0', '')}"`
