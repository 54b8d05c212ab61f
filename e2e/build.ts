import { execFileSync } from 'node:child_process'
import { resolve } from 'node:path'

/** The specs look at what is shipped: the built window, the built command line. */
export default function build(): void {
  const root = resolve(import.meta.dirname, '..')
  const script = "import('./scripts/workshop/build.mjs').then((workshop) => workshop.ensureBuild())"
  execFileSync(process.execPath, ['-e', script], { cwd: root, stdio: 'inherit' })
}
