import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DispatchId } from '../../../shared/ids.ts'
import { findCard } from '../../agents/index.ts'
import { layout } from '../../base/paths.ts'
import { defaultConfig, resolveContract } from '../../policy/index.ts'
import { rehearseSandbox } from '../../sandbox/index.ts'
import { openStore, type NewDispatch } from '../../store/index.ts'
import { identifyProject } from '../../workspace/index.ts'
import { terminalIo } from '../supervise/agentIo.ts'
import type { Job } from '../prepare/job.ts'
import { Course, lead } from '../supervise/lead.ts'
import type { Parts } from '../parts.ts'
import { ownStartTicks } from '../../base/processes.ts'
import type { Note } from '../record/recorder.ts'
import { makeScratch, sparePlaces } from '../../base/ownedScratch.ts'
import type { Size } from '../supervise/terminal.ts'

const nobody = '00000000000000-0000' as DispatchId

/**
 * Leads a dispatch of nobody to its end, in records and folders of its own that nobody else sees. Code that runs for the
 * first time is several times slower, most of it for being compiled, and a spare has the time that an agent has not.
 * Nothing of it stays.
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
  await using store = await openStore(join(sockets.folder, 'records'))
  store.dispatches.create(await rowOf(job), { synced: false })
  using io = terminalIo(size)
  await using course = new Course(job.contract, onEvent)
  const { signal } = new AbortController()
  const away = { ...parts, layout: place, runtime: sockets.folder, store }
  await lead(away, job, { io, signal }, course).catch(() => {})
  await course.log?.close()
}

async function rowOf({ id, contract, command, project }: Job): Promise<NewDispatch> {
  const none = { parentId: null, name: null, role: null, prompt: null, sandbox: null, sandboxSpec: null }
  return {
    ...none,
    id,
    repoId: project.repoId,
    agent: 'command',
    phase: contract.phase,
    level: contract.level,
    boundary: contract.boundary,
    roots: contract.roots,
    command,
    status: 'starting',
    error: null,
    createdAt: new Date().toISOString(),
    supervisorPid: process.pid,
    supervisorStartTicks: await ownStartTicks(),
  }
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
