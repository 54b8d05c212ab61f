import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DispatchId } from '../../shared/ids.ts'
import { findCard } from '../agents/index.ts'
import { layout } from '../base/paths.ts'
import { defaultConfig, resolveContract } from '../policy/index.ts'
import { rehearseSandbox } from '../sandbox/index.ts'
import { identifyProject } from '../workspace/index.ts'
import { terminalIo } from './agentIo.ts'
import type { Job } from './job.ts'
import { Course, lead } from './lead.ts'
import type { Parts } from './parts.ts'
import type { Note } from './recorder.ts'
import { makeScratch, sparePlaces } from './scratch.ts'
import type { Size } from './terminal.ts'

const nobody = '00000000000000-0000' as DispatchId

/**
 * Leads a dispatch of nobody to where its sandbox stands. Its first instruction never comes: the records know no such
 * dispatch, and refuse to tell its boundary or to call it running. Code that runs for the first time is several times
 * slower, most of it for being compiled, and a spare has the time that an agent has not. Nothing of it stays.
 */
export async function rehearse(parts: Parts, size: Size, onEvent?: Note): Promise<void> {
  parts.store.dispatches.rehearse()
  const host = await parts.host()
  await rehearseSandbox(host, parts.layout.dataDir)
  if (!host.userNamespaces.ok || !host.overlay.ok || host.bubblewrap === null) return
  await using scratch = await makeScratch(sparePlaces(parts.layout))
  // Paths of sockets must be short.
  await using sockets = await makeScratch(parts.runtime)
  const root = join(scratch.folder, 'root')
  await mkdir(root)
  const place = layout(join(scratch.folder, 'data'))
  const job = await jobOfNobody(parts.configDir, root, size)
  using io = terminalIo(size)
  await using course = new Course(job.contract, onEvent)
  const { signal } = new AbortController()
  const away = { ...parts, layout: place, runtime: sockets.folder }
  await lead(away, job, { io, signal }, course).catch(() => {})
  await course.log?.close()
}

async function jobOfNobody(configDir: string, root: string, size: Size): Promise<Job> {
  const card = await findCard(configDir, 'command')
  const config = defaultConfig()
  const asked = { spec: null, legacySandbox: null, phase: null, role: null, parent: null }
  return {
    id: nobody,
    name: null,
    card,
    command: ['true'],
    prompt: null,
    systemPrompt: null,
    contract: resolveContract({ ...asked, card, roots: [root], config }),
    project: await identifyProject([root]),
    driver: 'kernel-overlay',
    entersInvocation: false,
    continues: null,
    trusted: false,
    notes: [],
    env: {},
    told: { env: {}, files: [] },
    credentials: [],
    proxies: null,
    size,
    config,
  }
}
