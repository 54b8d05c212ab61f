import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { minimalEnv, run } from '../base/process.ts'

/**
 * Lets an agent commit as its user: name and address, as the user's own git sees them in this root, go into
 * the agent's home, and nothing else of the user's configuration. What the agent has there already stays.
 */
export async function giveIdentity(home: string, root: string): Promise<void> {
  const config = identityConfig(await readIdentity(root))
  if (config === '') return
  // Exclusive: in a home that is kept, the agent may have put a link there.
  await writeFile(join(home, '.gitconfig'), config, { flag: 'wx', mode: 0o600 }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    },
  )
}

type Settings = { readonly name?: string; readonly email?: string }

/** Reading configuration runs nothing. */
async function readIdentity(cwd: string): Promise<Settings> {
  const env: Record<string, string> = { ...minimalEnv }
  for (const name of ['HOME', 'XDG_CONFIG_HOME']) {
    const value = process.env[name]
    if (value !== undefined) env[name] = value
  }
  const asked = ['config', '--includes', '-z', '--get-regexp', '^user\\.(name|email)$']
  const listed = await run('git', asked, { cwd, env }).catch(() => null)
  const settings: { name?: string; email?: string } = {}
  for (const entry of listed?.stdout.toString().split('\0') ?? []) {
    const match = /^user\.(name|email)\n([^]*)$/.exec(entry)
    // The last one counts, as it does for git.
    if (match !== null) settings[match[1] as 'name' | 'email'] = match[2] ?? ''
  }
  return settings
}

/** Pure. */
export function identityConfig(settings: Settings): string {
  const lines = (['name', 'email'] as const).flatMap((key) => {
    const value = settings[key]
    return value === undefined || value === '' ? [] : [`\t${key} = ${quoted(value)}\n`]
  })
  return lines.length === 0 ? '' : `[user]\n${lines.join('')}`
}

const quoted = (value: string): string =>
  `"${value.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\n').replaceAll('\0', '')}"`
