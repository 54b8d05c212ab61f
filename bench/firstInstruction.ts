import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Contender } from './row.ts'
import { benchFolder } from './trees.ts'

/** The first instruction of what is started tells the time it runs at; the same program everywhere. */
export const tellTime = ['date', '+%s%N'] as const

export const nowMs = () => performance.timeOrigin + performance.now()

/** Milliseconds from the call until the started program told the time. */
export async function untilFirstInstruction(file: string, args: readonly string[]): Promise<number> {
  const started = nowMs()
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let told = ''
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => (told += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', resolve)
  })
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${errors.trim()}`)
  return Number(told.trim()) / 1e6 - started
}

export function plainSpawn(): Contender {
  const [file, ...args] = tellTime
  return { name: 'plain spawn', sample: () => untilFirstInstruction(file, args) }
}

const view =
  '--ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-all --die-with-parent --new-session'

export function plainBubblewrap(): Contender {
  const args = [...view.split(' '), ...tellTime]
  return { name: 'plain bubblewrap', sample: () => untilFirstInstruction('bwrap', args) }
}

/** What a careful person would type: namespaces, an overlay over the root, bubblewrap with it in place. */
const handWrittenLine = `
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work,userxattr" "$2/merged" &&
exec bwrap ${view} --bind "$2/merged" "$1" --chdir "$1" ${tellTime.join(' ')}`

const namespaces = '-Urmnpf --kill-child=KILL --mount-proc sh -c'.split(' ')

export async function handWritten(root: string, name = 'hand-written line'): Promise<Contender> {
  const folder = await benchFolder()
  let scratch = await freshScratch(folder)
  return {
    name,
    sample: () => untilFirstInstruction('unshare', [...namespaces, handWrittenLine, 'sh', root, scratch]),
    async reset() {
      await removeScratch(scratch)
      scratch = await freshScratch(folder)
    },
  }
}

async function freshScratch(folder: string): Promise<string> {
  const scratch = await mkdtemp(join(folder, 'hand-'))
  await Promise.all(['upper', 'work', 'merged'].map((name) => mkdir(join(scratch, name))))
  return scratch
}

const removeScratch = (scratch: string) => rm(scratch, { recursive: true, force: true })
