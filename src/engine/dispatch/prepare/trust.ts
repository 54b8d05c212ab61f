import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxRequest } from '../../base/sandbox.ts'
import {
  interceptedNames,
  javaStore,
  makeAuthority,
  trustEnvironment,
  usualAuthorities,
  type Authority,
} from '../../egress/index.ts'
import type { Job } from './job.ts'

/**
 * Files that programs inside read: where the user let us open TLS for a secret whom to trust, whose key stays in this process;
 * and what presets tell tools.
 */
export type Trust = {
  readonly authority: Authority | null
  readonly shown: NonNullable<SandboxRequest['shown']>
  readonly env: Readonly<Record<string, string>>
}

const names = { all: 'authorities.pem', own: 'authority.pem', java: 'authorities.jks' } as const
const inside = (name: keyof typeof names) => `/run/orangery/${names[name]}`

export async function prepareTrust(
  job: Pick<Job, 'contract' | 'credentials' | 'told'>,
  folder: string,
): Promise<Trust | null> {
  if (job.contract.level === 0) return null
  const told = await Promise.all(
    job.told.files.map(async ({ name, target, text }) => {
      const source = join(folder, `told-${name}`)
      await writeFile(source, text)
      return { source, target }
    }),
  )
  const opened = interceptedNames(job.credentials)
  if (opened.length === 0) return told.length === 0 ? null : { authority: null, shown: told, env: {} }
  const authority = await makeAuthority(opened)
  const all = [...usualAuthorities(), authority.certificate]
  const files = { all: all.join('\n'), own: authority.certificate, java: javaStore(all) }
  const show = async (name: keyof typeof names) => {
    const source = join(folder, names[name])
    await writeFile(source, files[name])
    return { source, target: inside(name) }
  }
  return {
    authority,
    shown: [...(await Promise.all([show('all'), show('own'), show('java')])), ...told],
    env: trustEnvironment(inside('all'), inside('own'), inside('java')),
  }
}
