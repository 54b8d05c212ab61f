import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SandboxEffective } from '../../shared/effective.ts'
import { makeDispatchId } from '../../shared/ids.ts'
import type { NewDispatch, Outcome } from './dispatches.ts'

/** A folder that goes away with the test. */
export async function scratchFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'orangery-store-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

export function aDispatch(given: Partial<NewDispatch> = {}): NewDispatch {
  const now = new Date()
  return {
    id: makeDispatchId(now, randomBytes(2)),
    repoId: null,
    parentId: null,
    name: null,
    agent: 'command',
    role: null,
    phase: null,
    prompt: null,
    sandbox: null,
    sandboxSpec: null,
    level: 1,
    boundary: 'readwrite',
    roots: ['/project'],
    command: ['true'],
    status: 'starting',
    error: null,
    createdAt: now.toISOString(),
    ...given,
  }
}

export function anEffective(given: Partial<SandboxEffective> = {}): SandboxEffective {
  return {
    tools_used: ['Read', 'Grep', 'Bash'],
    access_mode: 'workspace-write',
    turns_used: 23,
    commands_used: 47,
    violations: [],
    level: 1,
    driver: 'bubblewrap 0.8.0',
    workspace: 'kernel-overlay',
    boundary_history: [],
    network: { allowed: [], denied: [] },
    resources: { wall_ms: 1, cpu_ms: 1, max_rss_mb: 1, disk_mb: 1 },
    declared_equals_actual: { ok: true, checks: [] },
    ...given,
  }
}

export function anOutcome(given: Partial<Outcome> = {}): Outcome {
  return {
    status: 'completed',
    exitCode: 0,
    error: null,
    effective: anEffective(),
    endedAt: '2026-01-28T12:06:00.000Z',
    lastEventHash: null,
    ...given,
  }
}
