import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const textOf = (path: string) => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
const targetOf = (path: string) => {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

/** Processes whose command line or working folder, and mounts whose line, tell of the given folder. */
function tracesOf(folder: string): string[] {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const running = processes
    .map((pid) => ({
      pid,
      command: textOf(`/proc/${pid}/cmdline`).replaceAll('\0', ' '),
      cwd: targetOf(`/proc/${pid}/cwd`),
    }))
    .filter(({ command, cwd }) => command.includes(folder) || cwd.startsWith(folder))
    .map(({ pid, command }) => `process ${pid}: ${command}`)
  const mounts = textOf('/proc/self/mountinfo')
    .split('\n')
    .filter((line) => line.includes(folder))
  return [...running, ...mounts]
}

/** What is left of a folder's processes and mounts once what is ending has had a moment to end. */
export async function leftovers(folder: string): Promise<string[]> {
  for (let tries = 0; tries < 200 && tracesOf(folder).length > 0; tries++) await sleep(100)
  return tracesOf(folder)
}

/** Every file, socket and pipe below a folder; empty folders are nothing anybody left. */
export function filesBelow(folder: string): string[] {
  let entries
  try {
    entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  } catch {
    return []
  }
  return entries.filter((entry) => !entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name))
}
