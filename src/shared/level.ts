import { z } from 'zod'

export const sandboxLevels = [0, 1, 2, 3] as const
export type SandboxLevel = (typeof sandboxLevels)[number]
export const sandboxLevelSchema = z.union([z.literal(0), z.literal(1), z.literal(2), z.literal(3)], {
  error: 'expected one of 0, 1, 2, 3',
})

export type LevelName = 'bare-cli' | 'os-sandboxed' | 'container' | 'vm'
export const levelNames: Readonly<Record<SandboxLevel, LevelName>> = {
  0: 'bare-cli',
  1: 'os-sandboxed',
  2: 'container',
  3: 'vm',
}

export type Isolation = 'none' | 'os' | 'container' | 'vm'
export const isolations = ['none', 'os', 'container', 'vm'] as const satisfies readonly Isolation[]

/** Level and isolation are one thing said twice. */
export const isolationOfLevel = (level: SandboxLevel): Isolation => isolations[level] as Isolation
export const levelOfIsolation = (isolation: Isolation): SandboxLevel =>
  isolations.indexOf(isolation) as SandboxLevel

/** Mode names of older cards. */
const legacyModes: ReadonlyMap<string, SandboxLevel> = new Map([
  ['host', 0],
  ['docker', 2],
])

/** `0`..`3`, a level's name, an isolation or a legacy mode name; undefined for anything else. */
export function parseLevel(text: string): SandboxLevel | undefined {
  if (/^[0-3]$/.test(text)) return Number(text) as SandboxLevel
  const byName = sandboxLevels.find((level) => levelNames[level] === text)
  if (byName !== undefined) return byName
  if ((isolations as readonly string[]).includes(text)) return levelOfIsolation(text as Isolation)
  return legacyModes.get(text)
}
