import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { isOnPath, runQuietly } from './command.mjs'
import { say } from './say.mjs'

// What each part needs of a Debian or Ubuntu, told by a program it brings.
const forStart = [
  { program: 'bwrap', package: 'bubblewrap' },
  { program: 'getfattr', package: 'attr' },
  { program: 'unshare', package: 'util-linux' },
  { program: 'ip', package: 'iproute2' },
  { program: 'git', package: 'git' },
]
// Every client that must reach an allowed host is among them. Nothing is that would start a service: of an ssh server only
// the program.
const forTests = [
  ...forStart,
  { program: 'chromium', package: 'chromium', instead: ['chromium-browser', 'google-chrome'] },
  { program: 'fuse-overlayfs', package: 'fuse-overlayfs' },
  { program: 'curl', package: 'curl' },
  { program: 'python3', package: 'python3' },
  { program: 'python3', package: 'python3-venv', arguments: ['-c', 'import ensurepip'] },
  { program: 'make', package: 'make' },
  { program: 'gcc', package: 'gcc' },
  { program: 'openssl', package: 'openssl' },
  { program: 'ssh', package: 'openssh-client' },
  { program: '/usr/sbin/dropbear', package: 'dropbear-bin', instead: ['dropbear'] },
  { program: 'pip3', package: 'python3-pip' },
  { program: 'cargo', package: 'cargo' },
  { program: 'go', package: 'golang-go' },
  { program: 'javac', package: 'default-jdk-headless' },
  { program: 'gdb', package: 'gdb' },
  { program: 'zsh', package: 'zsh' },
  { program: 'fish', package: 'fish' },
  { program: 'ps', package: 'procps' },
  // Not on everybody's PATH.
  { program: '/usr/sbin/mkfs.xfs', package: 'xfsprogs' },
  { program: 'lowntfs-3g', package: 'ntfs-3g' },
]
// Docker starts a service where it is installed: nobody's machine gets it unasked. Tests that want an engine say so
// when they are skipped.
const forEngines = [
  { program: '/usr/sbin/dockerd', package: 'docker.io', instead: ['dockerd'] },
  { program: 'podman', package: 'podman' },
]

function needsOf(purpose) {
  if (purpose !== 'test') return forStart
  return process.env.ORANGERY_TEST_ENGINES === '1' ? [...forTests, ...forEngines] : forTests
}

function isThere({ program, instead = [], arguments: args }) {
  if (args === undefined) return [program, ...instead].some(isOnPath)
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0
}

const missing = (needs) => needs.filter((need) => !isThere(need))

async function administrator() {
  if (process.getuid?.() === 0) return []
  if (isOnPath('sudo') && (await runQuietly('sudo', ['-n', 'true'])).code === 0) return ['sudo', '-n']
  return undefined
}

/** Installs what is missing where that is allowed, and otherwise says in one line what a person can do. */
export async function ensureSystemPackages(purpose) {
  if (process.platform !== 'linux') return
  const lacking = missing(needsOf(purpose))
  if (lacking.length === 0) return
  const names = lacking.map((need) => need.package).join(' ')
  if (!existsSync('/usr/bin/apt-get')) {
    say(`missing on this machine: ${names}. Install them with your package manager.`)
    return
  }
  const prefix = await administrator()
  if (prefix === undefined) {
    say(`missing on this machine: ${names}. Run: sudo apt-get install ${names}`)
    return
  }
  say(`installing system packages: ${names}`)
  const apt = (...args) => {
    const [file, ...rest] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', '-qq']
    return runQuietly(file, [...rest, '-o', 'DPkg::Lock::Timeout=120', ...args])
  }
  const install = () => apt('install', '-y', '--no-install-recommends', ...names.split(' '))
  // The package lists of a fresh machine are empty or old: refresh them only when the first try fails.
  let result = await install()
  if (result.code !== 0) {
    await apt('update')
    result = await install()
  }
  if (result.code !== 0) {
    const why = result.output.trim().split('\n').at(-1) ?? ''
    say(`could not install ${names} (${why}). Run: sudo apt-get install ${names}`)
  }
}
