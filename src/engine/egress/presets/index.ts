import { lookup } from 'node:dns/promises'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { OrangeryError } from '../../../shared/errors.ts'
import { presetOf, type PresetName } from '../../../shared/hosts.ts'
import type { Outputs } from '../../../shared/spec.ts'
import { tryGit } from '../../base/git.ts'
import { run } from '../../base/process.ts'
import { refusedAddress } from '../addresses.ts'
import { parseAuthority, showTarget } from '../names.ts'
import { parseAllowHost } from '../policy.ts'
import { overhear, type Question } from './overhear.ts'
import { remoteUrls, settingsOf, sshHostOf } from './remotes.ts'

/** Whose tools are asked, and about what. */
export type PresetContext = {
  readonly home: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly roots: readonly string[]
  /** Hosts that the agent's card names. */
  readonly cardHosts: readonly string[]
  /** Reads a text from the network, to follow an index to where its files lie. Null where that fails. */
  readonly fetchText?: (url: string) => Promise<string | null>
  readonly resolve?: (host: string) => Promise<readonly string[]>
}

/**
 * The hosts a preset stands for on this machine, as `--allow-host` takes them. They are derived from what the
 * user's own tools are configured for, so a company's mirror works and no registry is named in our code.
 */
export async function expandPreset(name: PresetName, context: PresetContext): Promise<Expansion> {
  const found = await presets[name](context)
  const unique = [...new Set(found)].sort()
  const placed = await Promise.all(unique.map(async (host) => ({ host, pin: await pinOf(host, context) })))
  // Whoever wrote the repository wrote its remotes: they do not open the user's own machine and network. And what is on
  // this machine nothing opens but a pin the user writes; by the name localhost no program would use it anyway.
  const leftOut = placed
    .filter(({ host, pin }) => pin !== null && (name === 'git' || leadsHome(host, pin)))
    .map(({ host }) => host)
  const hosts = placed
    .filter(({ host }) => !leftOut.includes(host))
    .map(({ host, pin }) => (pin === null ? host : `${host}=${pin}`))
  if (hosts.length > 0) return { preset: name, hosts, ...(leftOut.length > 0 ? { leftOut } : {}) }
  if (leftOut.length > 0) {
    throw new OrangeryError(
      'egress.own_network',
      `@${name}: it leads only to your own machine or network (${leftOut.join(', ')})`,
      { kind: 'input', hint: 'Only you can open that: --allow-host NAME:PORT=ADDR:PORT' },
    )
  }
  throw new OrangeryError('egress.empty_preset', `@${name}: no host could be found for it`, {
    kind: 'input',
    hint: hints[name],
  })
}

export type Expansion = {
  readonly preset: PresetName
  readonly hosts: readonly string[]
  /** What it would mean too, and only the user can pin. */
  readonly leftOut?: readonly string[]
}

/** Puts hosts in the place of presets, and says which: the user sees them before anything is granted. */
export async function expandOutputs(
  outputs: Outputs,
  context: PresetContext,
): Promise<{ readonly outputs: Outputs; readonly expansions: readonly Expansion[] }> {
  const wanted = (outputs.allow ?? []).map((rule) => ({ rule, preset: presetOf(rule) }))
  if (wanted.every(({ preset }) => preset === null)) return { outputs, expansions: [] }
  const expansions = await Promise.all(
    wanted.flatMap(({ preset }) => (preset === null ? [] : [expandPreset(preset, context)])),
  )
  const granted = expansions.flatMap(({ hosts }) => hosts).map(parseAllowHost)
  const plain = wanted.filter(({ preset }) => preset === null).map(({ rule }) => rule)
  const pins = Object.fromEntries(granted.flatMap(({ pin }) => (pin === undefined ? [] : [pin])))
  return {
    outputs: {
      ...outputs,
      allow: [...new Set([...plain, ...granted.map(({ allow }) => allow)])],
      ...(Object.keys(pins).length > 0 ? { pins: { ...pins, ...outputs.pins } } : {}),
    },
    expansions,
  }
}

const hints: Readonly<Record<PresetName, string>> = {
  npm: 'Install npm, or name the registry with --allow-host.',
  pip: 'Install pip, or name the index with --allow-host.',
  cargo: 'Install cargo, or name the registry with --allow-host.',
  go: 'Install go and set GOPROXY, or name the proxy with --allow-host.',
  maven: 'Install mvn, or name the repository with --allow-host.',
  git: 'The roots have no remote that is reached over a network.',
  model: "The agent's card names no hosts.",
}

const presets: Readonly<Record<PresetName, (context: PresetContext) => Promise<string[]>>> = {
  npm: async (context) => {
    const config = await output(context, ['npm', 'config', 'list', '--json'])
    const values = parseJson(config)
    return hostsOf(
      Object.entries(values)
        .filter(([key]) => key === 'registry' || key.endsWith(':registry'))
        .map(([, value]) => String(value)),
    )
  },

  pip: async (context) => {
    const asked = 'pip'
    const hosts = await overheard(context, {
      command: (folder) => [
        'pip',
        'download',
        asked,
        ...'--no-deps --no-cache-dir --retries 0 --no-input --disable-pip-version-check --dest'.split(' '),
        folder,
      ],
      env: () => toolEnv(context),
    })
    const indexes = hostsAndUrls(await output(context, ['pip', 'config', 'list']))
    const pages = indexes.length > 0 ? indexes : hosts.map((host) => `${urlOf(host)}simple`)
    const files = await Promise.all(
      pages.map(async (url) =>
        hostsOf(hostsAndUrls((await read(context, `${url.replace(/\/$/, '')}/${asked}/`)) ?? '')),
      ),
    )
    return [...hosts, ...files.flat()]
  },

  cargo: async (context) => {
    const home = context.env['CARGO_HOME'] ?? join(context.home, '.cargo')
    const hosts = await overheard(context, {
      prepare: async (folder) => {
        await mkdir(join(folder, 'home'))
        await mkdir(join(folder, 'src'))
        for (const name of ['config.toml', 'config']) {
          await copyFile(join(home, name), join(folder, 'home', name)).catch(() => {})
        }
        await writeFile(join(folder, 'src/lib.rs'), '')
        await writeFile(
          join(folder, 'Cargo.toml'),
          '[package]\nname = "preset"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\nserde = "*"\n',
        )
      },
      command: () => ['cargo', 'fetch', '-q'],
      env: (folder) => ({
        ...toolEnv(context),
        RUSTUP_HOME: context.env['RUSTUP_HOME'] ?? join(context.home, '.rustup'),
        CARGO_HOME: join(folder, 'home'),
        CARGO_NET_RETRY: '0',
      }),
    })
    const files = await Promise.all(
      hosts.map(async (host) => {
        const { dl } = parseJson((await read(context, `${urlOf(host)}config.json`)) ?? '')
        return typeof dl === 'string' ? hostsOf([dl]) : []
      }),
    )
    return [...hosts, ...files.flat()]
  },

  go: async (context) => {
    const { GOPROXY, GOSUMDB } = parseJson(
      await output(context, ['go', 'env', '-json', 'GOPROXY', 'GOSUMDB']),
    )
    const proxies = String(GOPROXY ?? '').split(/[,|]/)
    // "name", "name+key" or "name+key url": without a url the name is the host.
    const [name = '', url] = String(GOSUMDB ?? '').split(' ')
    const checksums = url ?? (name === '' || name === 'off' ? '' : `https://${name.split('+')[0] ?? ''}`)
    return hostsOf([...proxies, checksums])
  },

  maven: (context) =>
    overheard(context, {
      command: (folder, port) => [
        'mvn',
        '-B',
        '-q',
        `-Dmaven.repo.local=${join(folder, 'repository')}`,
        `-Duser.home=${context.home}`,
        ...['http', 'https'].flatMap((scheme) => [
          `-D${scheme}.proxyHost=127.0.0.1`,
          `-D${scheme}.proxyPort=${port}`,
        ]),
        'help:help',
      ],
      env: () => toolEnv(context),
    }),

  git: async (context) => {
    const urls = await Promise.all(
      context.roots.map(async (root) => {
        // The user's own rewriting, as git itself would do it here: `includeIf` goes by where the repository is.
        const own = await Promise.all(
          ['--system', '--global'].map((scope) =>
            output(context, [
              'git',
              '-C',
              root,
              'config',
              scope,
              '--includes',
              '-z',
              '--get-regexp',
              rewrites,
            ]),
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
  },

  model: async (context) => [...context.cardHosts],
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

const overheard = ({ env, home }: PresetContext, question: Question): Promise<string[]> =>
  overhear(question, [env['XDG_RUNTIME_DIR'], home])

const ports: Readonly<Record<string, number>> = { http: 80, https: 443, ssh: 22, 'git+ssh': 22, git: 9418 }

/** `host:port` of every url that leads over a network. */
export function hostsOf(urls: readonly string[]): string[] {
  return urls.flatMap((text) => {
    const url = text.trim().replace(/^(sparse|registry)\+/, '')
    const full = /^([a-z+]+):\/\/(?:[^/@]*@)?(\[[^\]]*\](?::\d+)?|[^/?#]+)/i.exec(url)
    const target =
      full === null ? null : parseAuthority(full[2] ?? '', ports[(full[1] ?? '').toLowerCase()] ?? null)
    return target === null ? [] : [showTarget(target)]
  })
}

const hostsAndUrls = (text: string): string[] => text.match(/https?:\/\/[^\s'"<>]+/g) ?? []
const urlOf = (host: string) =>
  host.endsWith(':80') ? `http://${host.slice(0, -3)}/` : `https://${host.replace(/:443$/, '')}/`

/** A mirror in the user's own network is reached because the user's own tools are configured for it. */
async function pinOf(host: string, context: PresetContext): Promise<string | null> {
  const target = parseAuthority(host, null)
  if (target === null) return null
  const resolve =
    context.resolve ?? (async (name) => (await lookup(name, { all: true })).map(({ address }) => address))
  const addresses = await resolve(target.host).catch(() => [])
  const [first] = addresses
  if (first === undefined || addresses.some((address) => refusedAddress(address) === null)) return null
  return showTarget({ host: first, port: target.port })
}

/** Whether a host is this machine itself. */
const leadsHome = (host: string, pin: string): boolean =>
  /(^|\.)localhost(:|$)/.test(host) || /^(127\.|\[::1\]|\[::\]|0\.)/.test(pin)

function toolEnv(context: PresetContext): Record<string, string> {
  const known = Object.entries(context.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  return { ...Object.fromEntries(known), HOME: context.home }
}

/** From an empty place: a repository's own files must not say what the user's tools are configured for. */
async function output(
  context: PresetContext,
  [file, ...args]: readonly [string, ...string[]],
): Promise<string> {
  const ran = await run(file, args, { cwd: '/', env: toolEnv(context), timeoutMs: 15_000 }).catch(() => null)
  return ran?.code === 0 ? ran.stdout.toString() : ''
}

function parseJson(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}

async function read(context: PresetContext, url: string): Promise<string | null> {
  if (context.fetchText !== undefined) return context.fetchText(url)
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(5000) })
    return response.ok ? (await response.text()).slice(0, 2_000_000) : null
  } catch {
    return null
  }
}
