import { spawn, type ChildProcess } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../src/engine/base/process.ts'
import { makeGround, type Ground } from '../../src/engine/sandbox/fixture.ts'
import type { HostFacts } from '../../src/engine/sandbox/index.ts'

/** One stage for one probe: a project, a folder outside it with a canary and a secret, and who looks at them. */
export type World = AsyncDisposable & {
  readonly ground: Ground
  readonly host: HostFacts
  /** In the command line of every process of the probe. */
  readonly mark: string
  /** A folder of the host that is no part of the project. */
  readonly outside: string
  readonly canary: string
  readonly secretFile: string
  readonly secret: string
  /** What the probe took home. */
  loot(): Promise<string>
  /** What the probe and its programs complained of. */
  said(): Promise<string>
  isCanaryTouched(): Promise<boolean>
  /** Host processes of the probe, by mark. */
  processes(): Promise<readonly number[]>
  /** What the descriptors of the probe's processes point at. */
  descriptors(): Promise<readonly string[]>
  /** A process of the host that does nothing. */
  bystander(
    env?: Readonly<Record<string, string>>,
    through?: readonly string[],
  ): Promise<ChildProcess & { readonly pid: number }>
  /** Whatever a case has to take back. */
  defer(undo: () => Promise<void> | void): void
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

async function findProcesses(mark: string): Promise<readonly number[]> {
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  const found = await Promise.all(
    names.map(async (name) => {
      const command = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
      const words = command.split('\0')
      // The chain around the agent carries its command line too, and is no part of the probe.
      return words.includes(mark) && ['perl', 'su', 'sudo'].includes(words[0] ?? '') ? [Number(name)] : []
    }),
  )
  return found.flat()
}

export async function makeWorld(host: HostFacts): Promise<World> {
  const ground = await makeGround()
  const undo: (() => Promise<void> | void)[] = []
  const outside = join(ground.folder, 'outside')
  await mkdir(outside)
  const canary = join(outside, 'canary')
  const secretFile = join(outside, 'secret')
  const secret = `secret-${randomBytes(12).toString('hex')}`
  const mark = `mark-${randomBytes(8).toString('hex')}`
  await writeFile(canary, 'untouched\n')
  await writeFile(secretFile, `${secret}\n`)
  const before = sha256(await readFile(canary))
  const processes = () => findProcesses(mark)
  return {
    ground,
    host,
    mark,
    outside,
    canary,
    secretFile,
    secret,
    loot: () => readFile(join(ground.home, 'loot'), 'latin1').catch(() => ''),
    said: () => readFile(join(ground.home, 'said'), 'latin1').catch(() => ''),
    async isCanaryTouched() {
      const now = await readFile(canary).catch(() => null)
      return now === null || sha256(now) !== before
    },
    processes,
    async descriptors() {
      const links = await Promise.all(
        (await processes()).map(async (pid) => {
          const numbers = await readdir(`/proc/${pid}/fd`).catch(() => [])
          return Promise.all(numbers.map((number) => describeDescriptor(pid, number)))
        }),
      )
      return links.flat()
    },
    async bystander(env = {}, through = []) {
      const [file = 'sleep', ...args] = [...through, 'sleep', '300']
      const child = spawn(file, args, { stdio: 'ignore', env: { PATH: process.env['PATH'], ...env } })
      undo.push(() => void child.kill('SIGKILL'))
      await new Promise((resolve) => child.once('spawn', resolve))
      return child as ChildProcess & { readonly pid: number }
    },
    defer: (step) => void undo.push(step),
    async [Symbol.asyncDispose]() {
      for (const pid of await processes()) process.kill(pid, 'SIGKILL')
      for (const step of undo.toReversed()) await step()
      await run('chmod', ['-R', 'u+rwX', ground.folder])
      // By a program that walks by descriptor: the probe may have gone deeper than a path can be long.
      await run('rm', ['-rf', '--', outside, ground.root, ground.upper])
      await ground[Symbol.asyncDispose]()
    },
  }
}

/** For a socket its protocol, which the kernel tells as an attribute; for all others what it points at. */
async function describeDescriptor(pid: number, number: string): Promise<string> {
  const path = `/proc/${pid}/fd/${number}`
  const link = await readlink(path).catch(() => '')
  if (!link.startsWith('socket:')) return link
  const name = await run('getfattr', ['--only-values', '-n', 'system.sockprotoname', path])
  return `socket ${name.stdout.toString().replaceAll('\0', '')}`
}
