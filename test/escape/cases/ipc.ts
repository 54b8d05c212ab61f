import { createServer, type Server } from 'node:net'
import { mkdir, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../src/engine/base/process.ts'
import type { EscapeCase, Stage } from '../case.ts'
import { prepared } from '../prepared.ts'
import { realFiles } from '../realFiles.ts'
import type { World } from '../world.ts'

/** A listener of the host that notes who came. */
export async function listen(
  world: World,
  where: object,
): Promise<{ readonly server: Server; came(): boolean }> {
  let visitors = 0
  const server = createServer((socket) => {
    visitors++
    socket.on('error', () => {})
    socket.resume()
    socket.end('welcome\n')
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(where, resolve)
  })
  world.defer(() => new Promise<void>((resolve) => void server.close(() => resolve())))
  return { server, came: () => visitors > 0 }
}

const connectTo = (path: string) =>
  `perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("${path}")); sysread(S, $b, 9)'`

function pathname(
  id: string,
  attack: string,
  guard: string,
  folderOf: (world: World) => Promise<string>,
  more: Partial<EscapeCase> = {},
  request: (world: World) => Stage['request'] = () => ({}),
): EscapeCase {
  return {
    id,
    group: 'Local IPC',
    attack,
    guard,
    claim: 'blocked',
    stage: async (world) => {
      const path = join(await folderOf(world), 's')
      const { came } = await listen(world, { path })
      const grants = more.claim === 'not claimed' ? [world.outside] : []
      return { probe: connectTo(path), escaped: came, request: { grants, ...request(world) } }
    },
    ...more,
  }
}

type Named = {
  readonly id: string
  readonly attack: string
  /** The variable of the user's environment that leads there, and what it says. */
  readonly variable: string
  readonly says: (folder: string) => string
  readonly socket: string
  /** How a shell inside makes a path of it. */
  readonly inside: string
}

/** A socket that a variable of the user's environment leads to, wherever it lies. */
const named = ({ id, attack, variable, says, socket, inside }: Named): EscapeCase => ({
  id,
  group: 'Local IPC',
  attack,
  guard: 'the environment is made anew, and only what is in the view can be named',
  claim: 'blocked',
  stage: async (world) => {
    const path = join(world.outside, socket)
    const { came } = await listen(world, { path })
    const before = process.env[variable]
    process.env[variable] = says(world.outside)
    world.defer(() => {
      if (before === undefined) delete process.env[variable]
      else process.env[variable] = before
    })
    // By the variable as it is inside, and by the path it has outside.
    return { probe: `AT="${inside}" ${connectTo('$ENV{AT}')}; ${connectTo(path)}`, escaped: came }
  },
})

export const ipc: readonly EscapeCase[] = [
  pathname(
    'socket-pathname',
    'connects to a socket of the host in a temporary folder (X11, ssh-agent, editors)',
    'temporary folders are private, and only what is in the view can be named',
    async ({ outside }) => outside,
  ),
  {
    id: 'socket-by-link',
    group: 'Local IPC',
    attack: 'connects to a socket of the host by a relative path, by links made inside, and through /proc',
    guard: 'whatever leads there, only what is in the view can be named',
    claim: 'blocked',
    stage: async (world) => {
      const path = join(world.outside, 's')
      const { came } = await listen(world, { path })
      const link = `ln -s '${path}' link; ln -s '${world.outside}' folder`
      const ways = ['../outside/s', 'link', 'folder/s', `/proc/self/root${path}`, `/proc/1/root${path}`]
      return { probe: `${link}; ${ways.map(connectTo).join('; ')}`, escaped: came }
    },
  },
  {
    id: 'socket-in-run',
    group: 'Local IPC',
    attack: 'connects to a socket under /run (docker, podman, libvirt, D-Bus, systemd)',
    guard: '/run and /var/run are private',
    claim: 'blocked',
    isPrepared: true,
    stage: async (world) => {
      if (prepared !== null) {
        const { socket, visits } = prepared
        const seen = async () => (await stat(visits)).size
        const before = await seen()
        return { probe: connectTo(socket), escaped: async () => (await seen()) > before }
      }
      const folder = `/run/orangery-${world.mark}`
      await mkdir(folder)
      world.defer(() => rm(folder, { recursive: true, force: true }))
      const { came } = await listen(world, { path: join(folder, 's') })
      return { probe: connectTo(join(folder, 's')), escaped: came }
    },
  },
  pathname(
    'socket-in-root',
    'connects to a socket of the user that lies in the project',
    'seen through an overlay a socket is another one, at which nobody listens',
    async ({ ground }) => ground.root,
  ),
  pathname(
    'socket-in-real-files',
    'connects to a socket of the user that lies in the project, which is no overlay but the real files',
    'sockets that are there at the start are covered',
    async ({ ground }) => ground.root,
    {},
    realFiles,
  ),
  {
    id: 'late-socket-in-real-files',
    group: 'Local IPC',
    attack: 'connects to a socket that a program of the host makes among the real files while the agent runs',
    guard: 'what comes later is not covered: neither seccomp nor Landlock can look at the path of a connect',
    claim: 'not claimed',
    stage: async (world) => {
      const path = join(world.ground.root, 'late')
      let came = () => false
      return {
        probe: connectTo(path),
        control: 'sandbox',
        request: realFiles(world),
        attach: async () => void ({ came } = await listen(world, { path })),
        escaped: () => came(),
      }
    },
  },
  pathname(
    'socket-in-grant',
    'connects to a socket in a folder that was granted for reading',
    'a granted folder is granted as a whole; a read-only mount does not stop connecting',
    async ({ outside }) => outside,
    { claim: 'not claimed' },
  ),
  named({
    id: 'ssh-agent',
    attack: 'has the ssh-agent of the user sign, by the variable that leads to it',
    variable: 'SSH_AUTH_SOCK',
    says: (folder) => `${folder}/agent.1`,
    socket: 'agent.1',
    inside: '$SSH_AUTH_SOCK',
  }),
  named({
    id: 'gpg-agent',
    attack: 'speaks to the gpg-agent in the folder the user named for it',
    variable: 'GNUPGHOME',
    says: (folder) => folder,
    socket: 'S.gpg-agent',
    inside: '$GNUPGHOME/S.gpg-agent',
  }),
  named({
    id: 'session-bus',
    attack: 'has the session bus or systemd start a program outside',
    variable: 'DBUS_SESSION_BUS_ADDRESS',
    says: (folder) => `unix:path=${folder}/bus`,
    socket: 'bus',
    inside: '${DBUS_SESSION_BUS_ADDRESS#unix:path=}',
  }),
  named({
    id: 'wayland',
    attack: "draws on, and listens to, the user's screen",
    variable: 'XDG_RUNTIME_DIR',
    says: (folder) => folder,
    socket: 'wayland-0',
    inside: '$XDG_RUNTIME_DIR/wayland-0',
  }),
  {
    id: 'x11',
    group: 'Local IPC',
    attack: "types into the user's windows through X11, by its path and by its abstract name",
    guard: '/tmp is private, and so is the network namespace that abstract names belong to',
    claim: 'blocked',
    stage: async (world) => {
      const path = `/tmp/.X11-unix/${world.mark}`
      if ((await mkdir('/tmp/.X11-unix', { recursive: true })) !== undefined) {
        world.defer(() => rmdir('/tmp/.X11-unix').catch(() => {}))
      }
      const [inTmp, abstract] = await Promise.all([
        listen(world, { path }),
        listen(world, { path: `\0${path}` }),
      ])
      return {
        probe: `${connectTo(path)}; ${connectTo(`\\0${path}`)}`,
        escaped: () => inTmp.came() || abstract.came(),
      }
    },
  },
  {
    id: 'socket-abstract',
    group: 'Local IPC',
    attack: 'connects to an abstract socket of the host',
    guard: 'a network namespace of its own',
    claim: 'blocked',
    stage: async (world) => {
      const { came } = await listen(world, { path: `\0${world.mark}` })
      return { probe: connectTo(`\\0${world.mark}`), escaped: came }
    },
  },
  {
    id: 'shared-memory',
    group: 'Local IPC',
    attack: 'attaches to a shared memory segment of the host',
    guard: 'an IPC namespace of its own',
    claim: 'blocked',
    stage: async (world) => {
      const key = 0x0a000000 + Math.floor(Math.random() * 0xffffff)
      const made = `$i = shmget(${key}, 4096, 0666 | 01000); shmwrite($i, "${world.secret}", 0, 64); print $i`
      const id = (await run('perl', ['-e', made])).stdout.toString()
      world.defer(async () => void (await run('ipcrm', ['-m', id])))
      return {
        probe: `perl -e '$i = shmget(${key}, 4096, 0); shmread($i, $b, 0, 64); open(F, ">", "$ENV{HOME}/loot"); print F $b'`,
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
]
