import { ownEtc } from './etc.ts'
import { lesserView } from './lesserView.ts'
import type { SandboxPlan } from './plan.ts'
import { hiddenRoot, type ViewStep } from './view.ts'

function describeStep(step: ViewStep): string {
  switch (step.kind) {
    case 'read-only':
      return `read-only  ${quote(step.target)}${step.source === step.target ? '' : ` from ${quote(step.source)}`}`
    case 'writable':
      return `writable   ${quote(step.target)}${step.source === step.target ? '' : ` from ${quote(step.source)}`}`
    case 'given':
      return `own file   ${quote(step.target)} (${step.why})`
    case 'private':
      return `private    ${quote(step.target)} at most ${step.bytes / 1024 / 1024} MB`
    case 'hidden':
      return `hidden     ${quote(step.target)} (${step.why})`
    case 'covered':
      return [
        `read-only  ${step.target}`,
        ...ownEtc.map(([name, why]) => `own file   ${step.target}/${name} (${why})`),
        ...step.layer.hidden.map(
          ({ path }) => `hidden     ${quote(path)} (other users of the host may not read it)`,
        ),
      ].join('\n')
    case 'layered':
      return `read-only  ${quote(step.target)} (sockets and pipes of the host in it lead nowhere)`
    case 'link':
      return `link       ${quote(step.target)} to ${quote(step.to)}`
    case 'devices':
      return `devices    ${quote(step.target)} (null, zero, full, random, urandom, tty, pts)`
    case 'processes':
      return `processes  ${quote(step.target)} (its own only)`
    case 'root':
      return `workspace  ${quote(step.target)} ${step.access === 'ro' ? 'read-only' : 'writes go to the changeset'}`
    case 'sealed':
      return `sealed     ${quote(step.target)} (read-only from here on)`
    case 'terminal':
      return `terminal   ${quote(step.target)} (its own)`
  }
}

// A path may hold anything, a newline too; the description stays one line a fact.
const quote = (path: string) => (/^[\w@%+=:,./-]+$/.test(path) ? path : JSON.stringify(path))

function exceptions({ request, level }: SandboxPlan): string {
  const { writableFiles, writableNow = writableFiles, workspace } = request
  if (level === 0 || workspace.strategy === 'none' || writableNow.length === 0) return ''
  return `, but for ${writableNow.map(quote).join(' ')}`
}

/** One fact a line, in a fixed order, without times or process ids: two plans can be compared by `diff`. */
export function describePlan(plan: SandboxPlan): string {
  const { request } = plan
  const seccomp = plan.seccomp
  const refused = (isWhole: boolean) => {
    const rules = (seccomp?.rules ?? []).filter(({ when }) => (when.kind === 'always') === isWhole)
    return [...new Set(rules.map(({ call }) => call))].sort().join(' ')
  }
  return [
    `level ${plan.level}, ${plan.driver}`,
    `command    ${request.command.map(quote).join(' ')}`,
    `directory  ${quote(request.cwd)}`,
    `files      ${plan.files === 'ro' ? `read-only for now${exceptions(plan)}` : 'writable'}`,
    ...(plan.watches === null ? [] : ['watched    writes that are denied']),
    `network    ${request.network}`,
    `terminal   ${request.terminal ? 'yes' : 'no'}`,
    `identity   uid ${plan.identity.uid}, gid ${plan.identity.gid}`,
    `namespaces ${plan.namespaces.join(' ')}`,
    ...(plan.confinement === 'holder'
      ? []
      : [
          'privileges none: no capabilities, no new privileges, no user namespaces of its own, its own session',
        ]),
    ...plan.roots.map(
      (root) => `overlay    ${quote(root.target)} over ${quote(root.lower)}, writes in ${quote(root.upper)}`,
    ),
    ...request.workspace.roots.flatMap(({ access, target }) =>
      access === 'hidden' && !plan.view.some((step) => step.kind === 'hidden' && step.target === target)
        ? [`hidden     ${quote(target)} (${hiddenRoot})`]
        : [],
    ),
    ...plan.view.map(describeStep),
    ...lesserView(plan).map((text) => `lesser     ${text}`),
    ...(plan.sealsDevices ? ['sealed     nodes in /dev'] : []),
    ...(seccomp === null
      ? []
      : [`seccomp    ${seccomp.architecture}, refuses ${refused(true)}; in part ${refused(false)}`]),
    `environment ${plan.inheritsEnvironment ? "the user's own and " : ''}${Object.keys(plan.environment).sort().join(' ')}`,
    ...plan.limits.means.map((means) => `limit      ${means}`),
    '',
  ].join('\n')
}
