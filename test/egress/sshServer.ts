import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from './servers.ts'

const execute = promisify(execFile)
const account = 'gardener'

export type SshServer = AsyncDisposable & {
  readonly port: number
  readonly user: string
  /** What a client passes to git as its ssh. */
  readonly client: string
  /** What the servers said. */
  readonly said: () => string
}

/** On nobody's PATH but root's. */
async function findServer(name: string): Promise<string | null> {
  const known = `/usr/sbin/${name}`
  return access(known).then(
    () => known,
    () => findProgram(name),
  )
}

/**
 * An ssh server on loopback for one account of its own making, whose home is the folder; null where the machine has
 * none. Neither needs root, a service or a word of the machine's own accounts: each connection's server sees a list of
 * accounts with nobody else in it.
 */
export async function startSshServer(dir: string): Promise<SshServer | null> {
  const [dropbear, sshd] = [await findServer('dropbear'), await findServer('sshd')]
  if (dropbear === null && sshd === null) return null
  await mkdir(join(dir, '.ssh'), { recursive: true, mode: 0o700 })
  const accounts = join(dir, 'passwd')
  await writeFile(accounts, `${account}:x:1000:1000::${dir}:/bin/sh\n`)
  const user = join(dir, 'user')
  await execute('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', user])
  await execute('cp', [`${user}.pub`, join(dir, '.ssh/authorized_keys')])
  const command =
    dropbear === null ? await sshdCommand(sshd ?? '', dir) : await dropbearCommand(dropbear, dir)
  const enter = 'mount --bind "$0" /etc/passwd && exec unshare -U --map-user=1000 --map-group=1000 "$@"'
  let said = ''
  const server = createServer({ pauseOnConnect: true }, (connection) => {
    const args = ['-Urm', 'sh', '-c', enter, accounts, ...command]
    const child = spawn('unshare', args, { stdio: [connection, connection, 'pipe'] })
    child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()))
    child.once('spawn', () => connection.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    user: account,
    client: `ssh -i ${user} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes -F /dev/null`,
    said: () => said,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

async function dropbearCommand(dropbear: string, dir: string): Promise<string[]> {
  const key = join(dir, 'host')
  await execute('dropbearkey', ['-t', 'ed25519', '-f', key])
  return [dropbear, '-i', '-s', '-r', key]
}

async function sshdCommand(sshd: string, dir: string): Promise<string[]> {
  const key = join(dir, 'host')
  await execute('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
  const config = join(dir, 'config')
  await writeFile(config, `HostKey ${key}\nStrictModes no\nUsePAM no\nPidFile none\n`)
  return [sshd, '-i', '-e', '-f', config]
}
