import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readRegularFile } from '../../base/files.ts'
import { addressesOnly, addressOf, hostsOf, toolEnv, urlsIn, type PresetContext } from './asking.ts'
import { insideFolder, type Found } from './told.ts'
import { overheard } from './tools.ts'

const blocks = (text: string, name: string): string[] =>
  [...text.matchAll(new RegExp(`<${name}(?:\\s[^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map(
    ([, inner]) => inner ?? '',
  )

const without = (text: string, ...names: readonly string[]): string =>
  names.reduce(
    (left, name) => left.replaceAll(new RegExp(`<${name}(?:\\s[^>]*)?>[\\s\\S]*?</${name}>`, 'g'), ''),
    text,
  )

/** Settings as they are, but for what they say about comments and proxies. */
const plain = (text: string): string =>
  without(
    text
      .replaceAll(/<!--[\s\S]*?-->/g, '')
      .replaceAll(/<!\[CDATA\[([\s\S]*?)\]\]>/g, (_, inner: string) =>
        inner.replaceAll('&', '&amp;').replaceAll('<', '&lt;'),
      ),
    'proxies',
  )

/** Characters as themselves that stand there by their number: the `@` behind a password could. */
const spelled = (url: string): string =>
  url.replaceAll(/&#(?:x([0-9a-f]{1,6})|([0-9]{1,7}));/gi, (whole, hex?: string, decimal?: string) => {
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16)
    return code > 32 && code < 127 && !'<&>'.includes(String.fromCodePoint(code))
      ? String.fromCodePoint(code)
      : whole
  })

/** Properties may be passwords: only those that a url is made of are put in, and none is left. */
function spelledOut(settings: string): string {
  const known = new Map(
    blocks(settings, 'properties').flatMap((block) =>
      [...block.matchAll(/<([\w.-]+)>([^<]*)<\/\1>/g)].map(([, name, value]) => [
        name ?? '',
        value?.trim() ?? '',
      ]),
    ),
  )
  const fill = (url: string) =>
    url.replaceAll(/\$\{([\w.-]+)\}/g, (whole, name: string) => known.get(name) ?? whole)
  return settings.replaceAll(
    /<url(?:\s[^>]*)?>\s*([^<]*?)\s*<\/url>/g,
    (_, url: string) => `<url>${addressOf(spelled(fill(url)))}</url>`,
  )
}

/** The profiles that are, or may become, active. */
function activeProfiles(settings: string): string {
  const active = new Set(blocks(settings, 'activeProfile').map((id) => id.trim()))
  const isActive = (profile: string) =>
    profile.includes('<activation>') || active.has(blocks(profile, 'id')[0]?.trim() ?? '')
  const kept = blocks(settings, 'profile').filter(isActive)
  const profiles = `<profiles>${kept.map((inner) => `<profile>${inner}</profile>`).join('\n')}</profiles>`
  return settings.replace(/<profiles>[\s\S]*<\/profiles>/, () => profiles)
}

/** What of a user's settings says where artifacts come from. */
export function mavenTold(text: string): string {
  const settings = activeProfiles(without(spelledOut(plain(text)), 'servers', 'properties'))
  const parts = ['mirrors', 'profiles', 'activeProfiles'].flatMap((name) =>
    blocks(settings, name).map((inner) => `<${name}>${inner}</${name}>`),
  )
  return parts.length === 0 ? '' : addressesOnly(`<settings>\n${parts.join('\n')}\n</settings>\n`)
}

export async function maven(context: PresetContext): Promise<Found> {
  const path = join(context.home, '.m2/settings.xml')
  const settings = await readRegularFile(path).catch(() => null)
  const heard = await overheard(context, {
    prepare: async (folder) => {
      if (settings !== null) await writeFile(join(folder, 'settings.xml'), plain(settings))
    },
    command: (folder, port) => [
      'mvn',
      '-B',
      '-q',
      // A proxy that the user's settings name would go before ours.
      ...(settings === null ? [] : ['-s', join(folder, 'settings.xml')]),
      `-Dmaven.repo.local=${join(folder, 'repository')}`,
      `-Duser.home=${context.home}`,
      ...['http', 'https'].flatMap((scheme) => [
        `-D${scheme}.proxyHost=127.0.0.1`,
        `-D${scheme}.proxyPort=${port}`,
      ]),
      'help:help',
    ],
    env: () => toolEnv(context),
  })
  const text = settings === null ? '' : mavenTold(settings)
  const urls = blocks(text, 'url').flatMap(urlsIn)
  const target = `${insideFolder}/settings.xml`
  return {
    hosts: [...heard, ...hostsOf(urls)],
    tell: (open) =>
      open(urls).length === 0
        ? { env: {}, files: [] }
        : // Heeded from Maven 3.9 on.
          { env: { MAVEN_ARGS: `-s ${target}` }, files: [{ name: 'settings.xml', target, text }] },
  }
}
