import { chmod, copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { CheckResult, DoctorReport } from '../../src/shared/doctor.ts'
import { run } from '../../src/engine/base/process.ts'
import { explainNoFuse, explainNoOverlay } from '../../src/engine/sandbox/host/overlays.ts'
import { explainNested, explainRefusal } from '../../src/engine/sandbox/host/refusal.ts'
import { canRunAs } from '../escape/runAs.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'orangery-hosts-'))
  await mkdir(join(folder, 'data'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const door = join(import.meta.dirname, '../../src/engine/sandbox/index.ts')

/** Asks the doctor on a host that was made so: in namespaces of its own, where a host can be changed at will. */
async function doctorOn(
  setUp: string,
  dataDir = join(folder, 'data'),
  through: readonly string[] = [],
): Promise<DoctorReport> {
  const ask = `const { doctor } = await import(${JSON.stringify(door)}); console.log(JSON.stringify(await doctor(process.argv[1])))`
  const script = `${setUp}\nexec "$1" --disable-warning=ExperimentalWarning --input-type=module -e "$2" "$3"`
  const args = ['-Urmpf', '--mount-proc', 'sh', '-ec', script, 'sh', process.execPath, ask, dataDir]
  const [file = '', ...rest] = [...through, 'unshare', ...args]
  const result = await run(file, rest, { cwd: folder })
  if (result.code !== 0) throw new Error(result.stderr.toString())
  return JSON.parse(result.stdout.toString()) as DoctorReport
}

const levelOne = (report: DoctorReport) => report.levels.find(({ level }) => level === 1)
const failed = (report: DoctorReport): readonly CheckResult[] =>
  levelOne(report)?.checks.filter(({ ok }) => !ok) ?? []

// The host's own answers, in the words it would give them.
const refused = (name: string, words: string, version = '') =>
  `printf '#!/bin/sh\\n[ "$*" != --version ] || exec echo "${version}"\\necho "${words}" >&2; exit 1\\n' >fake-${name}; chmod 755 fake-${name}; mount --bind fake-${name} "$(command -v ${name})"`

describe('the doctor names the cause and the one command that helps where', () => {
  test('nothing is wrong: there is nothing to help with', async () => {
    const report = await doctorOn(':')
    expect(failed(report)).toEqual([])
    expect(levelOne(report)).toMatchObject({ available: true, workspace: 'kernel-overlay' })
  })

  test('there is no bubblewrap', async () => {
    const report = await doctorOn('mount --bind /dev/null "$(command -v bwrap)"')
    expect(levelOne(report)?.available).toBe(false)
    expect(failed(report).filter(({ name }) => name !== 'layers over the system')).toEqual([
      { name: 'bwrap', ok: false, detail: 'not installed', fix: 'sudo apt install bubblewrap' },
    ])
  })

  test.each([
    ['says nothing', 'exit 0'],
    ['does not end', 'exec sleep 60'],
  ])('bubblewrap %s when asked for its version', async (name, program) => {
    const path = join(folder, name.replaceAll(' ', '-'))
    await writeFile(path, `#!/bin/sh\n${program}\n`, { mode: 0o755 })
    const report = await doctorOn(`mount --bind ${path} "$(command -v bwrap)"`)
    expect(levelOne(report)?.available).toBe(false)
    expect(failed(report)).toContainEqual({
      name: 'bubblewrap version',
      ok: false,
      detail: expect.stringContaining('does not tell its version'),
      fix: 'sudo apt install --reinstall bubblewrap',
    })
  })

  test('bubblewrap is set-uid', async () => {
    const path = join(folder, 'setuid')
    await copyFile((await run('sh', ['-c', 'command -v bwrap'])).stdout.toString().trim(), path)
    await chmod(path, 0o4755)
    const report = await doctorOn(`mount --bind ${path} "$(command -v bwrap)"`)
    expect(levelOne(report)?.available).toBe(false)
    expect(failed(report)[0]?.detail).toContain('set-uid')
    expect(failed(report)[0]?.fix).toMatch(/^sudo chmod u-s \//)
  })

  test('bubblewrap is too old', async () => {
    const path = join(folder, 'old')
    await writeFile(path, '#!/bin/sh\necho bubblewrap 0.4.1\n', { mode: 0o755 })
    const report = await doctorOn(`mount --bind ${path} "$(command -v bwrap)"`)
    expect(failed(report)[0]).toMatchObject({
      detail: '0.4.1 is older than 0.8',
      fix: expect.stringContaining('Debian has since 12') as string,
    })
  })

  test('user namespaces are switched off', async () => {
    const report = await doctorOn('echo 0 >/proc/sys/user/max_user_namespaces')
    const levels = report.levels.filter(({ level }) => level <= 1)
    expect(levels.map(({ available }) => available)).toEqual([false, false])
    expect(failed(report)[0]).toMatchObject({
      name: 'user namespaces',
      detail: 'user namespaces are switched off (user.max_user_namespaces is 0)',
      fix: 'sudo sysctl -w user.max_user_namespaces=15000',
    })
  })

  // Bubblewrap makes one within another, and starts are tried side by side: with 4 they failed, with 5 layers were lost.
  test.each([1, 4, 15])('a user may have %i user namespaces, and a start takes more', async (most) => {
    const report = await doctorOn(`echo ${most} >/proc/sys/user/max_user_namespaces`)
    expect(levelOne(report)?.available).toBe(false)
    // The kernel takes its time to count one that is gone, so others may be refused besides bubblewrap's.
    expect(new Set(failed(report).map(({ fix }) => fix))).toEqual(
      new Set(['sudo sysctl -w user.max_user_namespaces=15000']),
    )
  })

  test('a user may have just enough user namespaces', async () => {
    const report = await doctorOn('echo 16 >/proc/sys/user/max_user_namespaces')
    expect(levelOne(report)?.available).toBe(true)
  })

  test('bubblewrap starts nothing for a reason of its own', async () => {
    const report = await doctorOn(refused('bwrap', 'bwrap: loader cannot', 'bubblewrap 0.8.0'))
    expect(failed(report)).toMatchObject([
      { name: 'bubblewrap starts', fix: 'sudo apt install --reinstall bubblewrap' },
    ])
  })

  test.each(['mnt', 'net', 'pid'])(
    'a user may have one of %s namespaces, and a sandbox takes more',
    async (kind) => {
      const report = await doctorOn(`echo 1 >/proc/sys/user/max_${kind}_namespaces`)
      expect(levelOne(report)?.available).toBe(false)
      expect(new Set(failed(report).map(({ fix }) => fix))).toEqual(
        new Set([`sudo sysctl -w user.max_${kind}_namespaces=15000`]),
      )
    },
  )

  test.each(['mnt', 'net', 'pid', 'ipc', 'uts', 'cgroup'])('%s namespaces are switched off', async (kind) => {
    const report = await doctorOn(`echo 0 >/proc/sys/user/max_${kind}_namespaces`)
    expect(levelOne(report)?.available).toBe(false)
    expect(failed(report)[0]).toMatchObject({
      detail: `${kind} namespaces are switched off (user.max_${kind}_namespaces is 0)`,
      fix: `sudo sysctl -w user.max_${kind}_namespaces=15000`,
    })
  })

  test('the data folder is on a file system that is read-only', async () => {
    const data = join(folder, 'data')
    const report = await doctorOn(`mount --bind ${data} ${data}; mount -o remount,bind,ro ${data}`)
    expect(report.levels.map(({ available }) => available)).toEqual([false, false, false, false])
    expect(failed(report)).toEqual([
      {
        name: 'data folder',
        ok: false,
        detail: expect.stringMatching(/data cannot be written \(EROFS: /),
        fix: 'export ORANGERY_DATA_DIR=/path/you/may/write',
      },
    ])
  })

  test('AppArmor keeps ordinary programs from making user namespaces', async () => {
    const report = await doctorOn(
      `mount -t tmpfs tmpfs /proc/sys/kernel; echo 1 >/proc/sys/kernel/apparmor_restrict_unprivileged_userns
      ${refused('unshare', 'unshare: write failed /proc/self/uid_map: Operation not permitted')}`,
    )
    expect(levelOne(report)?.available).toBe(false)
    expect(failed(report)[0]).toMatchObject({
      detail: 'AppArmor keeps ordinary programs from making user namespaces',
      fix: 'sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
    })
  })

  test('we are in a container that refuses them', async () => {
    const report = await doctorOn(
      `mount -t tmpfs tmpfs /run; : >/run/.containerenv
      ${refused('unshare', 'unshare: unshare failed: Operation not permitted')}`,
    )
    expect(failed(report)[0]?.detail).toMatch(/^(Podman|Docker) around us refuses user namespaces/)
    expect(failed(report)[0]?.fix).toMatch(/^(podman|docker) run --security-opt seccomp=unconfined/)
  })

  test('the kernel is too old for an overlay of an ordinary user', async () => {
    const report = await doctorOn(refused('mount', 'mount: operation not permitted'), undefined, [
      'setarch',
      '--uname-2.6',
    ])
    expect(report.kernel).toMatch(/^2\.6/)
    expect(failed(report)[0]).toMatchObject({
      name: 'kernel overlay',
      detail: expect.stringContaining('is older than 5.11') as string,
      fix: expect.stringMatching(/fuse-overlayfs$|^Use Linux 5\.11/) as string,
    })
  })

  test('the data folder lies on an overlay itself: the next step of the ladder is shown', async () => {
    for (const name of ['l', 'u', 'w', 'm']) await mkdir(join(folder, name))
    const report = await doctorOn(
      'mount -t overlay -o lowerdir=l,upperdir=u,workdir=w,userxattr overlay m; mkdir m/data',
      join(folder, 'm', 'data'),
    )
    expect(failed(report)[0]).toMatchObject({ name: 'kernel overlay' })
    expect(failed(report)[0]?.detail).toContain('on overlay')
    expect(failed(report)[0]?.fix).toContain('ORANGERY_DATA_DIR')
    expect(levelOne(report)?.available).toBe(true)
    expect(levelOne(report)?.workspace).toMatch(/fuse-overlayfs|copy/)
    // Layers without a writable one can be there.
    expect(failed(report).map(({ name }) => name)).not.toContain('layers over the system')
  })

  test('something is mounted in a folder of the system, over which no layer can be laid then', async () => {
    const report = await doctorOn('mount -t tmpfs tmpfs /usr/share')
    expect(levelOne(report)?.available).toBe(true)
    expect(failed(report)).toEqual([
      {
        name: 'layers over the system',
        ok: false,
        detail: expect.stringMatching(/^\/usr: .*named pipes are not$/) as string,
        fix: expect.stringContaining('findmnt') as string,
      },
    ])
  })

  test('nothing holds memory: neither a systemd of the user nor a control group', async () => {
    const report = await doctorOn(
      'unset XDG_RUNTIME_DIR; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /sys/fs/cgroup',
    )
    expect(levelOne(report)?.available).toBe(true)
    expect(report.limits.memory).toMatch(
      /neither a systemd user session nor .* fails preflight\. Run it where/,
    )
  })
})

describe('a refusal of user namespaces is explained', () => {
  const signs = {
    none: [],
    few: [],
    clone: '1',
    apparmor: null,
    inside: null,
    mounts: '22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:21 / /proc rw - proc proc rw\n',
    said: 'Operation not permitted',
  }

  test.each([
    ['by AppArmor', { apparmor: '1\n' }, 'sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0'],
    ["by Debian's switch", { clone: '0\n' }, 'sudo sysctl -w kernel.unprivileged_userns_clone=1'],
    [
      'by a limit around us',
      { inside: 'Docker', said: 'unshare failed: No space left on device' },
      'sudo sysctl -w user.max_user_namespaces=15000',
    ],
    ['by a chroot', { mounts: '30 22 0:21 / /proc rw - proc proc rw\n' }, 'pivot_root'],
    ['by the container around us', { inside: 'Docker' }, 'docker run --security-opt seccomp=unconfined'],
    ['by the kernel', {}, 'CONFIG_USER_NS'],
  ])('%s', (_, changes, fix) => {
    const answer = explainRefusal({ ...signs, ...changes })
    expect(answer).toMatchObject({ ok: false, fix: expect.stringContaining(fix) as string })
  })

  test.each([
    ['bwrap: unshare user ns: Operation not permitted', 'sudo sysctl -w kernel.unprivileged_userns_clone=1'],
    ['bwrap: Creating new namespace failed: Operation not permitted', 'unprivileged_userns_clone=1'],
    ["bwrap: Can't mount proc on /newroot/proc: Operation not permitted", null],
  ])('where bubblewrap says of one within another that it cannot, and not otherwise: %s', (said, fix) => {
    const answer = explainNested({ ...signs, clone: '0\n', said })
    expect(answer).toEqual(
      fix === null ? null : expect.objectContaining({ fix: expect.stringContaining(fix) as string }),
    )
  })
})

const noOverlay = {
  kernel: '6.1.0',
  filesystem: 'nfs',
  said: 'wrong fs type',
  hasFuse: true,
  otherPlace: null,
}

test.each(['nfs', 'ecryptfs', 'overlay', 'fuse'])(
  'a home on %s, where the kernel mounts no overlay, is named as the cause in our words, with the way out',
  (filesystem) => {
    expect(explainNoOverlay({ ...noOverlay, filesystem })).toEqual({
      ok: false,
      why: `the kernel takes no writable layer of an overlay on ${filesystem}, where the data folder is`,
      fix: 'export ORANGERY_DATA_DIR=/path/on/ext4/xfs/or/btrfs',
    })
  },
)

test('of other file systems what mount says of the overlay is told', () => {
  expect(explainNoOverlay({ ...noOverlay, filesystem: 'zfs' })).toMatchObject({
    why: 'the kernel cannot mount an overlay with its writable layer on zfs (wrong fs type)',
  })
})

test('on a kernel older than 5.11 fuse-overlayfs is to be installed only where it is not', () => {
  const old = { ...noOverlay, kernel: '5.10.0-32-amd64' }
  expect(explainNoOverlay(old)).toMatchObject({ fix: 'Use Linux 5.11 or newer.' })
  expect(explainNoOverlay({ ...old, hasFuse: false })).toMatchObject({
    fix: 'sudo apt install fuse-overlayfs',
  })
})

const warning = 'unknown argument ignored: lazytime\n'

test.each([
  ['fuse: failed to open /dev/fuse: Permission denied', 'sudo chmod 666 /dev/fuse'],
  ["fuse: device not found, try 'modprobe fuse' first (/dev/fuse: No such file)", 'sudo modprobe fuse'],
  ['fuse-overlayfs: cannot mount: Invalid argument', 'export ORANGERY_DATA_DIR=/path/on/ext4/xfs/or/btrfs'],
])('of what fuse-overlayfs prints the failure is told, %j, and what helps against it', (said, fix) => {
  const stderr = Buffer.from(`${warning}${said}\nfuse-overlayfs: cannot mount: Permission denied\n`)
  expect(explainNoFuse({ stderr, code: 1, signal: null })).toEqual({
    ok: false,
    why: `fuse-overlayfs does not work here (${said})`,
    fix,
  })
})

test('where fuse-overlayfs names no failure how it ended is told, and not its warning', () => {
  const stderr = Buffer.from(warning)
  expect(explainNoFuse({ stderr, code: 3, signal: null })).toMatchObject({
    why: 'fuse-overlayfs does not work here (it ended with 3)',
  })
  expect(explainNoFuse({ stderr, code: null, signal: 'SIGKILL' })).toEqual({
    ok: false,
    why: 'fuse-overlayfs does not work here (it did not answer within 5 s)',
    fix: 'Try again when the machine is less busy.',
  })
})

test.for([
  ['root', []],
  ['ordinary user', ['setpriv', '--reuid=1000', '--regid=1000', '--clear-groups', '--']],
] as const)(
  'a sandbox of %s starts where the nodes of /dev are on a mount with nosuid and noexec, as systemd makes it',
  async ([who, become], { skip }) => {
    skip(process.getuid?.() !== 0, 'only root can mount /dev so')
    skip(!(await canRunAs(who)), 'an ordinary user cannot read this checkout')
    const start = `
const { makeGround, runIn } = await import(process.argv[1] + '/fixture.ts')
const { detectHost } = await import(process.argv[1] + '/host/host.ts')
await using ground = await makeGround()
const end = await runIn(ground, await detectHost(ground.dataDir), 'echo inside; echo lost >/dev/null')
console.log(end.stdout)`
    const script = 'mount -o remount,bind,nosuid,noexec /dev; grep " /dev " /proc/self/mountinfo; exec "$@"'
    const node = [
      process.execPath,
      '--disable-warning=ExperimentalWarning',
      '--input-type=module',
      '-e',
      start,
      dirname(door),
    ]
    const args = ['-m', 'sh', '-ec', script, 'sh', ...become, ...node]
    const result = await run('unshare', args, { cwd: folder })
    // As control: that it is mounted so.
    expect(result.stdout.toString()).toMatch(/ \/dev rw,nosuid,noexec/)
    expect(result.stderr.toString()).toBe('')
    expect(result.stdout.toString()).toContain('inside')
  },
)
