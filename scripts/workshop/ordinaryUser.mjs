import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { root } from './places.mjs'

const id = 1000
const become = ['setpriv', `--reuid=${id}`, `--regid=${id}`, '--clear-groups', '--']
// In a mount namespace that ends with what runs in it: nobody else sees the checkout there.
const show = 'mount --rbind -- "$1" "$2" && cd -- "$2" && shift 2 && exec "$@"'

/** Whether he reaches the checkout by its path, has a folder to write in, and may make what a sandbox is made of. */
const look =
  'test -r "$1/scripts/test.mjs" && test -w "$HOME" && "$1/node_modules/.bin/vitest" --version || exit 3; unshare -Urmpf --mount-proc true || exit 4'
const reasons = {
  3: 'an ordinary user cannot reach the folder for temporary files, or this checkout, also where it is shown',
  4: 'an ordinary user may make no namespaces here',
}

function makeHome(folder) {
  // It holds what is the person's, each of it closed.
  chmodSync(folder, 0o711)
  const home = join(folder, 'user')
  for (const path of [home, join(home, 'tmp')]) {
    mkdirSync(path, { mode: 0o700 })
    chownSync(path, id, id)
  }
  return home
}

/**
 * How root starts something of this checkout as an ordinary user, with a home in that folder; or why that cannot be. A
 * checkout out of his reach, as below /root, is shown to him at another place.
 */
export function ordinaryUser(folder) {
  if (process.getuid?.() !== 0) return { reason: 'who runs this is one: all of it ran so' }
  const home = makeHome(folder)
  const shown = join(folder, 'checkout')
  mkdirSync(shown, { mode: 0o755 })
  const ways = [
    { at: root, through: become },
    { at: shown, through: ['unshare', '--mount', '--', 'sh', '-c', show, 'sh', root, shown, ...become] },
  ]
  let code
  for (const { at, through } of ways) {
    // Nothing of root's: its npm would have his folders for its own.
    const env = {
      PATH: [join(at, 'node_modules', '.bin'), process.env.PATH ?? ''].join(delimiter),
      HOME: home,
      TMPDIR: join(home, 'tmp'),
      LANG: 'C.UTF-8',
    }
    const [file, ...args] = [...through, 'sh', '-c', look, 'sh', at]
    code = spawnSync(file, args, { cwd: root, env, stdio: 'ignore' }).status
    if (code === 0) return { at, home, env, through, own: (path) => chownSync(path, id, id) }
    if (code === 4) break
  }
  return { reason: reasons[code] ?? reasons[3] }
}
