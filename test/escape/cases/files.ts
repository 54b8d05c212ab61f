import { createRequire } from 'node:module'
import { randomBytes } from 'node:crypto'
import { access, lstat, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { arch, homedir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../src/engine/base/process.ts'
import type { EscapeCase, Stage } from '../case.ts'
import { realFiles } from '../realFiles.ts'
import { hasComplained, staying } from '../staying.ts'
import type { World } from '../world.ts'

const view = 'the view starts empty: what is no root, grant or system folder does not exist inside'

/** The canary changed, or something new lies beside it. */
const touchedOutside = (world: World) => async () =>
  (await world.isCanaryTouched()) || (await readdir(world.outside)).length !== 2

function writing(id: string, attack: string, script: (world: World) => string, guard = view): EscapeCase {
  return {
    id,
    group: 'Files',
    attack,
    guard,
    claim: 'blocked',
    stage: async (world) => {
      const escaped = touchedOutside(world)
      const tried = async () => (await hasComplained(world)) || (await escaped())
      return { probe: script(world), escaped, tried }
    },
  }
}

function reading(id: string, attack: string, script: (world: World) => string): EscapeCase {
  return {
    id,
    group: 'Files',
    attack,
    guard: view,
    claim: 'blocked',
    stage: async (world) => {
      const escaped = async () => (await world.loot()).includes(world.secret)
      const tried = async () => (await hasComplained(world)) || (await escaped())
      return { probe: script(world), escaped, tried }
    },
  }
}

/** A folder in the user's real home, made for the case and taken back. */
async function homeCanary(world: World): Promise<string> {
  const folder = join(homedir(), `.orangery-canary-${randomBytes(6).toString('hex')}`)
  await mkdir(folder)
  world.defer(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'id_ed25519'), world.secret)
  return folder
}

const syscallOfSetxattr = arch() === 'x64' ? 188 : 5

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

export const files: readonly EscapeCase[] = [
  writing('write-outside', 'makes a file outside the roots', ({ outside }) => `echo x >'${outside}/new'`),
  writing('append-outside', 'appends to a file outside the roots', ({ canary }) => `echo x >>'${canary}'`),
  writing(
    'truncate-outside',
    'empties a file outside the roots',
    ({ canary }) => `truncate -s 0 '${canary}'`,
  ),
  writing('unlink-outside', 'removes a file outside the roots', ({ canary }) => `rm '${canary}'`),
  writing(
    'replace-outside',
    'replaces a file outside the roots by rename',
    ({ canary }) => `echo x >'${canary}.new'; mv -f '${canary}.new' '${canary}'; cp README.md '${canary}'`,
  ),
  writing(
    'symlink-final',
    'writes through a symlink that leads out',
    ({ canary }) => `ln -s '${canary}' link; echo x >link`,
  ),
  writing(
    'symlink-intermediate',
    'writes below a symlinked folder that leads out',
    ({ outside }) => `ln -s '${outside}' dir; echo x >dir/canary; echo x >dir/new`,
  ),
  writing(
    'symlink-chained',
    'writes through a chain of symlinks',
    ({ canary }) => `ln -s '${canary}' a; ln -s a b; ln -s b c; echo x >c`,
  ),
  writing(
    'symlink-dangling',
    'makes a file through a symlink whose target does not exist yet',
    ({ outside }) => `ln -s '${outside}/fresh' link; echo x >link`,
  ),
  writing(
    'symlink-relative',
    'climbs out by dots',
    () => `ln -s ../outside/canary link; echo x >link; echo x >../outside/new`,
  ),
  {
    id: 'phase-file-link',
    group: 'Files',
    attack: 'has links in the repository where files stay writable, for the sandbox to make what they name',
    guard: 'such a file is looked up name by name, and a link is refused',
    claim: 'blocked',
    stage: async (world) => {
      const { root } = world.ground
      await symlink(join(world.outside, 'by-link'), join(root, 'TODO.md'))
      await symlink(world.outside, join(root, 'docs'))
      return {
        probe: '(: >>TODO.md); (: >>docs/by-folder); :',
        escaped: touchedOutside(world),
        request: { writableFiles: [join(root, 'TODO.md'), join(root, 'docs', 'by-folder')] },
      }
    },
  },
  writing(
    'hard-link',
    'makes a hard link to a file outside and writes through it',
    ({ canary }) => `ln '${canary}' hard; echo x >hard`,
  ),
  {
    id: 'ancestor-rename',
    group: 'Files',
    attack: 'renames the root itself and puts another in its place',
    guard: 'the root is a mount point inside, and its parent a private folder',
    claim: 'blocked',
    stage: async ({ ground }) => ({
      probe: `cd /; mv '${ground.root}' '${ground.root}.moved'; mkdir -p '${ground.root}'; echo x >'${ground.root}/README.md'`,
      escaped: async () => {
        const text = await readFile(join(ground.root, 'README.md'), 'utf8').catch(() => '')
        return text !== 'original\n' || (await exists(`${ground.root}.moved`))
      },
    }),
  },
  {
    id: 'ancestor-rename-back',
    group: 'Files',
    attack: 'renames the folder the root lies in, writes below its new name and renames it back',
    guard: 'the folders above a root are private ones, and the root a mount point in them',
    claim: 'blocked',
    stage: async ({ ground }) => ({
      probe: `cd /; mv '${ground.folder}' '${ground.folder}.moved'; echo x >'${ground.folder}.moved/project/README.md'; mv '${ground.folder}.moved' '${ground.folder}'`,
      escaped: async () =>
        (await readFile(join(ground.root, 'README.md'), 'utf8').catch(() => '')) !== 'original\n',
    }),
  },
  {
    id: 'root-itself',
    group: 'Files',
    attack: 'overwrites and deletes everything in the root',
    guard: 'the workspace is an overlay: writes go to the changeset',
    claim: 'blocked',
    stage: async ({ ground }) => ({
      probe: 'echo x >README.md; rm -rf ./* ./.[!.]*',
      escaped: async () =>
        (await readFile(join(ground.root, 'README.md'), 'utf8').catch(() => '')) !== 'original\n',
    }),
  },
  {
    id: 'system-write',
    group: 'Files',
    attack: 'plants a program in the system',
    guard: 'the system is mounted read-only',
    claim: 'blocked',
    only: 'root',
    stage: async (world): Promise<Stage> => {
      const planted = ['/usr/local/bin', '/etc', '/opt'].map((folder) => join(folder, world.mark))
      world.defer(async () => {
        for (const path of planted) await rm(path, { force: true })
      })
      return {
        probe: planted.map((path) => `echo x >'${path}'`).join('; '),
        escaped: async () => (await Promise.all(planted.map(exists))).includes(true),
        tried: async () =>
          (await hasComplained(world)) || (await Promise.all(planted.map(exists))).includes(true),
      }
    },
  },
  {
    id: 'home-first-creation',
    group: 'Files',
    attack: "makes a file in the user's home that was not there (.bashrc, .ssh/authorized_keys)",
    guard: "nothing of the user's home is there; HOME is a folder of its own",
    claim: 'blocked',
    stage: async (world) => {
      const planted = join(homedir(), `.${world.mark}`)
      world.defer(() => rm(planted, { force: true }))
      return { probe: `mkdir -p '${homedir()}'; echo x >'${planted}'`, escaped: () => exists(planted) }
    },
  },
  reading(
    'secret-read',
    'reads a secret outside the roots',
    ({ secretFile }) => `cat '${secretFile}' >~/loot`,
  ),
  reading('secret-glob', 'reads it by a pattern', ({ outside }) => `cat '${outside}'/* >~/loot`),
  reading(
    'secret-copied-binary',
    'reads it with a copied program',
    ({ secretFile }) => `cp "$(command -v cat)" c; ./c '${secretFile}' >~/loot`,
  ),
  reading(
    'secret-symlink',
    'reads it through a symlink in the root',
    ({ secretFile }) => `ln -s '${secretFile}' link; cat link >~/loot`,
  ),
  {
    id: 'home-read',
    group: 'Files',
    attack: "reads keys, histories, cloud credentials and browser profiles in the user's home",
    guard: "nothing of the user's home is there",
    claim: 'blocked',
    stage: async (world) => {
      const folder = await homeCanary(world)
      return {
        probe: `cat '${folder}'/* >~/loot; cat ~root/.orangery-canary-*/* >>~/loot`,
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
  {
    id: 'etc-shadow',
    group: 'Files',
    attack: 'reads what only root may read of /etc',
    guard: 'what other users of the host may not read is masked',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => ({
      probe: 'cat /etc/shadow >~/loot',
      escaped: async () => (await world.loot()).includes('root:'),
    }),
  },
  {
    id: 'data-folder',
    group: 'Files',
    attack: "reads Orangery's own records, logs and other changesets",
    guard: 'the data folder is not in the view',
    claim: 'blocked',
    stage: async (world) => {
      const { dataDir } = world.ground
      await writeFile(join(dataDir, 'orangery.db'), world.secret)
      return {
        probe: `cat '${dataDir}/orangery.db' >~/loot; ls -laR '${dataDir}' >>~/loot`,
        escaped: async () => (await world.loot()).includes(world.secret),
      }
    },
  },
  {
    id: 'inherited-descriptor',
    group: 'Files',
    attack: 'uses a descriptor that the host process left open',
    guard: 'the gate closes every descriptor above 2 before it becomes the agent',
    claim: 'blocked',
    stage: async (world) => {
      const leak = leakDescriptor()
      world.defer(leak.close)
      return {
        probe: `sleep 60 & ${staying(world, '')}`,
        live: true,
        tried: async () => (await world.processes()).length > 0,
        escaped: async () => (await world.descriptors()).some((link) => link === leak.link),
      }
    },
  },
  {
    id: 'device-node',
    group: 'Files',
    attack: 'makes a device node of the disk in the root',
    guard: 'no capabilities; mounts do not honour devices',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => ({
      probe: 'mknod disk b 254 0; mknod memory c 1 1',
      escaped: async () => {
        const { ground } = world
        const paths = [join(ground.root, 'disk'), join(ground.upper, 'disk')]
        const infos = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
        return infos.some((info) => info?.isBlockDevice() === true)
      },
      tried: async () =>
        (await hasComplained(world, 'mknod: ')) || (await exists(join(world.ground.root, 'disk'))),
    }),
  },
  {
    id: 'set-uid-file',
    group: 'Files',
    attack: 'leaves a set-uid program in the root',
    guard: 'the filter refuses set-uid modes; apply never lands them either',
    claim: 'blocked',
    stage: async ({ ground }) => ({
      probe: 'cp "$(command -v sh)" shell; chmod 4755 shell',
      escaped: async () => {
        const paths = [join(ground.root, 'shell'), join(ground.upper, 'shell')]
        const infos = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
        return infos.some((info) => info !== null && (info.mode & 0o4000) !== 0)
      },
      // The file itself it may make.
      tried: async () =>
        (await exists(join(ground.root, 'shell'))) || (await exists(join(ground.upper, 'shell'))),
    }),
  },
  {
    id: 'set-uid-openat2',
    group: 'Files',
    attack: 'makes a set-uid program of the real files by a call whose mode no filter can read',
    guard: 'seccomp answers ENOSYS to openat2 altogether',
    claim: 'blocked',
    stage: async (world) => ({
      probe: `perl -e '$p = "planted"; $h = pack("QQQ", 0101, 04755, 0); syscall(437, -100, $p, $h, 24)'; chmod 2755 README.md`,
      request: realFiles(world) ?? {},
      escaped: async () => {
        const paths = ['planted', 'README.md'].map((name) => join(world.ground.root, name))
        const infos = await Promise.all(paths.map((path) => lstat(path).catch(() => null)))
        return infos.some((info) => info !== null && (info.mode & 0o6000) !== 0)
      },
    }),
  },
  {
    id: 'file-capability',
    group: 'Files',
    attack: 'gives a program in the root capabilities',
    guard: 'no capabilities',
    claim: 'blocked',
    only: 'root',
    stage: async (world) => ({
      probe: `cp "$(command -v sh)" shell; perl -e '$f = "shell"; $n = "security.capability"; $v = pack("L5", 0x02000001, 0x200000, 0, 0, 0); syscall(${syscallOfSetxattr}, $f, $n, $v, 20, 0)'`,
      request: realFiles(world) ?? {},
      escaped: async () => {
        const named = await run('getfattr', ['-m', 'security.capability', join(world.ground.root, 'shell')])
        return named.stdout.includes('security.capability')
      },
      tried: () => exists(join(world.ground.root, 'shell')),
    }),
  },
  {
    id: 'host-edit-shows',
    group: 'Files',
    attack: 'sees what the user writes into the root while the agent runs',
    guard: 'the lower layer of an overlay is live; drift is found before apply',
    claim: 'not claimed',
    stage: async (world) => ({
      probe:
        'cat later >~/loot; n=0; while [ ! -s ~/loot ] && [ $n -lt 100 ]; do sleep 0.02; cat later >~/loot; n=$((n+1)); done',
      escaped: async () => (await world.loot()).includes(world.secret),
      ...(await writeSoon(world)),
    }),
  },
]

async function writeSoon(world: World): Promise<object> {
  setTimeout(() => void writeFile(join(world.ground.root, 'later'), world.secret), 30)
  return {}
}

/** The pty binding's descriptors are not closed on exec: a real leak of a real library. */
function leakDescriptor(): { readonly link: string; close(): void } {
  const require = createRequire(import.meta.url)
  const { requireBinary } = require('@lydell/node-pty/requireBinary.js') as {
    requireBinary(file: string): {
      open(c: number, r: number): { master: number; slave: number; pty: string }
    }
  }
  const pair = requireBinary('pty.node').open(80, 24)
  const fs = require('node:fs') as typeof import('node:fs')
  return {
    link: pair.pty,
    close() {
      fs.closeSync(pair.master)
      fs.closeSync(pair.slave)
    },
  }
}
