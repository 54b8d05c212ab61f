import { join } from 'node:path'
import { tryGit } from '../../base/git.ts'
import { parseAuthority, showTarget } from '../rules/names.ts'
import { hostsOf, output, type PresetContext } from './asking.ts'
import { namesHost, remotesOf, settingsOf, sshHostOf, toldSetting, type Remote } from './remotes.ts'
import type { Found } from './told.ts'

/** Where the remotes of the roots lead. */
export async function git(context: PresetContext): Promise<Found> {
  const remotes = (await Promise.all(context.roots.map((root) => remotesIn(context, root)))).flat()
  const placed = await Promise.all(
    remotes.map(async (remote) => ({ ...remote, host: await hostOf(context, remote.url) })),
  )
  const hosts = (isOwn: boolean) =>
    placed
      .filter(({ sentBy }) => (sentBy !== null && namesHost(sentBy.base)) === isOwn)
      .flatMap(({ host }) => host ?? [])
  return {
    hosts: hosts(true),
    learnt: hosts(false),
    tell: (_, isOpen) => {
      const told = placed.flatMap((remote) =>
        remote.host !== null && isOpen(remote.host) ? (toldSetting(remote) ?? []) : [],
      )
      const unique = [...new Map(told.map((setting) => [JSON.stringify(setting), setting])).values()]
      // One that only put a password in is left with nothing to say, but keeps a wider one from its remotes.
      const isOfUse = unique.some(({ key, value }) => !key.startsWith(`url.${value}.`))
      return { env: {}, files: [], git: isOfUse ? unique : [] }
    },
  }
}

async function remotesIn(context: PresetContext, root: string): Promise<Remote[]> {
  // The user's own rewriting, as git itself would do it here: `includeIf` goes by where the repository is.
  const own = await Promise.all(
    ['--system', '--global'].map((scope) =>
      output(context, ['git', '-C', root, 'config', scope, '--includes', '-z', '--get-regexp', rewrites]),
    ),
  )
  const asked = ['config', '-z', '--get-regexp', `^remote\\..*\\.(push)?url$|${rewrites}`]
  const listed = await tryGit(asked, { cwd: root }).catch(() => null)
  const repository = listed?.code === 0 ? listed.stdout.toString() : ''
  return remotesOf(settingsOf(own.join('')), settingsOf(repository))
}

async function hostOf(context: PresetContext, url: string): Promise<string | null> {
  const [plain] = hostsOf([url])
  const host = sshHostOf(url) ?? plain
  if (host === undefined) return null
  return plain === undefined || /^(git\+)?ssh:/i.test(url) ? sshTarget(context, host) : host
}

/** Where ssh would connect to: the user's own config may know the host by a shorter name. */
async function sshTarget(context: PresetContext, host: string): Promise<string> {
  const config = join(context.home, '.ssh/config')
  const asked = parseAuthority(host, null)
  if (asked === null) return host
  const port = asked.port === 22 ? [] : ['-p', String(asked.port)]
  const said = await output(context, ['ssh', '-G', '-F', config, ...port, '--', asked.host])
  const value = (key: string) => new RegExp(`^${key} (.+)$`, 'm').exec(said)?.[1]
  const target = parseAuthority(`${value('hostname') ?? ''}:${value('port') ?? ''}`, null)
  return target === null ? host : showTarget(target)
}

const rewrites = '^url\\..*\\.(push)?insteadof$'
