import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { SavedApproval, TrustState } from '../../../shared/config.ts'
import { OrangeryError } from '../../../shared/errors.ts'
import { ensurePrivateDir, writeFileAtomically } from '../../base/files.ts'
import { createRepoLock } from '../../base/lock.ts'
import { readConfigText, sha256Of, type ConfigText } from './read.ts'

/**
 * Earlier records held the first 48 bits, of which an agent finds two alike in minutes: a host that a person saves, and
 * `full` in the repository's own file. They tell not which was meant, so what they stood for is asked about again.
 * (escape: approval-collision)
 */
const wholeDigests = (digests: readonly string[]): string[] =>
  digests.filter((digest) => /^[0-9a-f]{64}$/.test(digest))

/**
 * Which repositories' own config the user has trusted. Trust is in a text, not in a path: a file that has
 * changed since asks again, and the text that was trusted is kept to show the difference.
 */
const trustFileSchema = z.object({
  version: z.literal(1),
  projects: z.record(
    z.string(),
    z.object({
      /** Null: only the approvals below are trusted. */
      sha256: z.string().nullable(),
      text: z.string(),
      at: z.string(),
      by: z.string(),
      /** Digests of approvals the user saved into the file from here. */
      approvals: z.array(z.string()).default([]).transform(wholeDigests),
      /** Of which repository, in whichever worktree. */
      repository: z.string().nullable().default(null),
      /** Hashes of texts that held here until an approval was taken out: no trust from elsewhere brings them back. */
      withdrawn: z.array(z.string()).optional(),
    }),
  ),
  /** By the top of the checkout: its `.worktreeinclude`. */
  includes: z
    .record(z.string(), z.object({ sha256: z.string(), text: z.string(), at: z.string(), by: z.string() }))
    .default({}),
  /** Hashes of config files as we wrote them last, by their paths: what we write during a run is no violation of it. */
  written: z.record(z.string(), z.string()).optional(),
})
export type TrustFile = z.infer<typeof trustFileSchema>
export type ProjectTrust = TrustFile['projects'][string]

/** Two people, or two windows, saving at once: the second edits what the first has written. */
export function lockConfigs(userConfigDir: string): Promise<AsyncDisposable> {
  return createRepoLock({ locks: join(userConfigDir, '.locks') }).acquire('config')
}

export const trustFilePath = (userConfigDir: string): string => join(userConfigDir, 'trust.json')

export async function readTrust(userConfigDir: string): Promise<TrustFile> {
  const file = trustFilePath(userConfigDir)
  const source = await readConfigText(file, { follow: true })
  if (source === null) return { version: 1, projects: {}, includes: {} }
  let value: unknown
  try {
    value = JSON.parse(source.text)
  } catch {
    value = undefined
  }
  const parsed = trustFileSchema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new OrangeryError('config.trust_damaged', `${file}: not a list of trusted projects`, {
    kind: 'input',
    hint: 'Move it away; projects will ask for trust again.',
  })
}

export async function writeTrust(userConfigDir: string, trust: TrustFile): Promise<void> {
  await ensurePrivateDir(userConfigDir)
  // A link to it stays one, as that of the config does.
  const file = trustFilePath(userConfigDir)
  const target = await realpath(file).catch(() => file)
  await writeFileAtomically(target, `${JSON.stringify(trust, null, 2)}\n`, 0o600)
}

/** What the user has trusted of a project: in its folder, and in the worktrees of the same repository. */
export function trustsOf(trust: TrustFile, folder: string, repository: string | null): ProjectTrust[] {
  const own = trust.projects[folder]
  const others = Object.entries(trust.projects).filter(
    ([other, known]) => other !== folder && repository !== null && known.repository === repository,
  )
  return [...(own === undefined ? [] : [own]), ...others.map(([, known]) => known)]
}

export function trustStateOf(
  source: ConfigText | null,
  trusts: readonly Pick<ProjectTrust, 'sha256'>[],
): TrustState {
  if (source === null) return 'absent'
  if (trusts.some(({ sha256 }) => sha256 === source.sha256)) return 'trusted'
  return trusts.some(({ sha256 }) => sha256 !== null) ? 'changed' : 'untrusted'
}

/** Whether a file counts in a folder, and which saved approvals in it do. */
export function trustIn(
  trust: TrustFile,
  folder: string,
  repository: string | null,
  source: ConfigText | null,
) {
  const known = trustsOf(trust, folder, repository)
  const own = trust.projects[folder]
  const valid = known.filter((each) => each === own || own?.withdrawn?.includes(each.sha256 ?? '') !== true)
  return {
    trust: trustStateOf(source, valid),
    ownApprovals: [...new Set(known.flatMap(({ approvals }) => approvals))],
  }
}

/** Names an approval by what it allows, so that editing it is a new approval. */
export function approvalDigest(approval: SavedApproval): string {
  const meaning = [
    approval.agent,
    approval.level,
    [...approval.hosts].sort(),
    approval.roots === undefined ? null : [...approval.roots].sort(),
    approval.phase ?? null,
    approval.expires ?? null,
  ]
  return sha256Of(JSON.stringify(meaning))
}
