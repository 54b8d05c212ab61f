import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SandboxRequest } from '../base/sandbox.ts'
import {
  interceptedNames,
  makeAuthority,
  trustEnvironment,
  usualAuthorities,
  type Authority,
} from '../egress/index.ts'
import type { Job } from './job.ts'

/** What a sandbox needs where the user let us open TLS for a secret; its key stays in this process. */
export type Trust = {
  readonly authority: Authority
  readonly shown: NonNullable<SandboxRequest['shown']>
  readonly env: Readonly<Record<string, string>>
}

const inside = { all: '/run/orangery/authorities.pem', own: '/run/orangery/authority.pem' }

export async function prepareTrust(
  job: Pick<Job, 'contract' | 'credentials'>,
  folder: string,
): Promise<Trust | null> {
  const names = interceptedNames(job.credentials)
  if (names.length === 0 || job.contract.level === 0) return null
  const authority = await makeAuthority(names)
  const files = { all: join(folder, 'authorities.pem'), own: join(folder, 'authority.pem') }
  await writeFile(files.own, authority.certificate)
  await writeFile(files.all, [...usualAuthorities(), authority.certificate].join('\n'))
  return {
    authority,
    shown: [
      { source: files.all, target: inside.all },
      { source: files.own, target: inside.own },
    ],
    env: trustEnvironment(inside.all, inside.own),
  }
}
