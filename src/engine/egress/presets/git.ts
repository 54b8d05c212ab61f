import { join } from 'node:path'
import { tryGit } from '../../base/git.ts'
import { parseAuthority, showTarget } from '../names.ts'
import { hostsOf, output, type PresetContext } from './asking.ts'
import { remoteUrls, settingsOf, sshHostOf } from './remotes.ts'

/** Where the remotes of the roots lead. */
export async function gitHosts(context: PresetContext): Promise<string[]> {
  const urls = await Promise.all(
    context.roots.map(async (root) => {
      // The user's own rewriting, as git itself would do it here: `includeIf` goes by where the repository is.
      const own = await Promise.all(
        ['--system', '--global'].map((scope) =>
          output(context, ['git', '-C', root, 'config', scope, '--includes', '-z', '--get-regexp', rewrites]),
        ),
      )
      const asked = ['config', '-z', '--get-regexp', `^remote\\..*\\.(push)?url$|${rewrites}`]
      const listed = await tryGit(asked, { cwd: root }).catch(() => null)
      const settings = listed?.code === 0 ? listed.stdout.toString() : ''
      return remoteUrls(settingsOf(own.join('') + settings))
    }),
  )
  const hosts = urls.flat().map((url) => {
    const [plain] = hostsOf([url])
    return { host: sshHostOf(url) ?? plain, isSsh: plain === undefined || /^(git\+)?ssh:/i.test(url) }
  })
  return Promise.all(
    hosts.flatMap(({ host, isSsh }) =>
      host === undefined ? [] : [isSsh ? sshTarget(context, host) : Promise.resolve(host)],
    ),
  )
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
