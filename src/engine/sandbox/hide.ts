import { join } from 'node:path'
import { run } from '../base/process.ts'
import type { SandboxPlan } from './plan.ts'
import type { ViewStep } from './view.ts'

// What `find` reads as a pattern, meant as it stands.
const literal = (text: string) => text.replaceAll(/[\\*?[\]]/g, String.raw`\$&`)

/**
 * A pattern without a slash is a name at any depth; with one it is a path from the root, as in .gitignore. A
 * name with brackets (`[id].ts`) is meant as a class by some and as it stands by others: both are hidden.
 */
function findTests(root: string, pattern: string): readonly string[] {
  const plain = pattern.replace(/\/+$/, '')
  const spellings = plain.includes('[') ? [plain, plain.replaceAll('[', String.raw`\[`)] : [plain]
  return spellings.flatMap((spelling, index) => [
    ...(index === 0 ? [] : ['-o']),
    ...(plain.includes('/')
      ? ['-path', `${literal(root)}/${spelling.replace(/^\/+/, '')}`]
      : ['-name', spelling]),
  ])
}

type Found = { readonly kind: string; readonly links: number; readonly path: string }

async function find(program: string, root: string, tests: readonly string[]): Promise<readonly Found[]> {
  const action = ['-prune', '-printf', String.raw`%y %n %P\0`]
  const listing = await run(program, [root, '-mindepth', '1', '(', ...tests, ')', ...action])
  return listing.stdout
    .toString()
    .split('\0')
    .flatMap((line) => {
      const [, kind = '', links = '', path = ''] = /^(\S+) (\d+) ([^]*)$/.exec(line) ?? []
      return path === '' || kind === 'l' ? [] : [{ kind, links: Number(links), path }]
    })
}

const either = (tests: readonly (readonly string[])[]) =>
  tests.flatMap((test, index) => (index === 0 ? test : ['-o', ...test]))

/** By the patterns, and by every other name that a file found by them has in the root. */
async function findHidden(
  program: string,
  root: string,
  patterns: readonly string[],
): Promise<readonly Found[]> {
  const named = await find(program, root, either(patterns.map((pattern) => findTests(root, pattern))))
  const linked = named.filter(({ kind, links }) => kind === 'f' && links > 1)
  if (linked.length === 0) return named
  const same = linked.map(({ path }) => ['-samefile', join(root, path)])
  return [...named, ...(await find(program, root, either(same)))]
}

const cover =
  (target: string, why: string) =>
  ({ kind, path }: Found): ViewStep => ({
    kind: 'hidden',
    of: kind === 'd' ? 'folder' : 'file',
    target: join(target, path),
    why,
  })

/**
 * The plan with every file that is to be hidden in its view. What comes into being later is not hidden. Where
 * the agent has the real files it would have the sockets among them too, at which somebody listens; seen
 * through an overlay they are others. (escape: socket-in-real-files)
 */
export async function withHidden(plan: SandboxPlan): Promise<SandboxPlan> {
  const { hide, workspace } = plan.request
  const program = plan.tools.find
  const isDirect = workspace.strategy === 'none' && plan.confinement === 'bubblewrap'
  if ((hide.length === 0 && !isDirect) || program === null) return plan
  const found = await Promise.all(
    workspace.roots.flatMap(({ mount, target }) => {
      const folders = mount.kind === 'bind' ? [mount.source] : [mount.lower, mount.upper]
      const hidden = async (folder: string) =>
        hide.length === 0
          ? []
          : (await findHidden(program, folder, hide)).map(cover(target, 'hidden by the spec'))
      const sockets = async (folder: string) =>
        (await find(program, folder, ['-type', 's'])).map(cover(target, 'a socket of the host'))
      return folders.flatMap((folder) => (isDirect ? [hidden(folder), sockets(folder)] : [hidden(folder)]))
    }),
  )
  const steps = new Map(found.flat().map((step) => [step.target, step]))
  const seal = plan.view.findIndex((step) => step.kind === 'sealed' && step.target === '/')
  return { ...plan, view: [...plan.view.slice(0, seal), ...steps.values(), ...plan.view.slice(seal)] }
}
