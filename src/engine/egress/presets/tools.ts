import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readRegularFile } from '../../base/files.ts'
import {
  addressesOnly,
  addressOf,
  hostsOf,
  outputApart,
  parseJson,
  read,
  toolEnv,
  urlOf,
  urlsIn,
  type PresetContext,
} from './asking.ts'
import { overhear, type Question } from './overhear.ts'
import { insideFolder, type Found } from './told.ts'

export async function overheard(context: PresetContext, question: Question): Promise<string[]> {
  const places = [context.env['XDG_RUNTIME_DIR'], context.home]
  const { heard, isSlow } = await overhear(question, places, context.patienceMs)
  if (isSlow) context.onSlow?.(question.command('', 0)[0])
  return heard
}

/** Lines that are told of otherwise, or that nobody is told of. */
const unsaidOfNpm = /registry|auth|password|token|username|email|cert|key|proxy|otp/i

const registryLine = /^[ \t]*((?:@[^:\s]+:)?registry)[ \t]*=[ \t]*"?([^\s"]+)/gm

export async function npm(context: PresetContext): Promise<Found> {
  const values = parseJson(await outputApart(context, ['npm', 'config', 'list', '--json']))
  const text = (key: string) => readRegularFile(String(values[key] ?? '')).catch(() => '')
  const [general, own] = await Promise.all([text('globalconfig'), text('userconfig')])
  // npm does not print a url with a password in it: where that is, its files say.
  const written = [...`${general}\n${own}`.matchAll(registryLine)].map(([, key = '', url = '']) => [key, url])
  const registries = Object.entries({ ...Object.fromEntries(written), ...values })
    .filter(([key]) => key === 'registry' || key.endsWith(':registry'))
    .map(([key, value]) => [key, String(value)] as const)
  const kept = general.split('\n').filter((line) => line.trim() !== '' && !unsaidOfNpm.test(line))
  return {
    hosts: hostsOf(registries.map(([, url]) => url)),
    tell: (open) => {
      const lines = registries.flatMap(([key, url]) => open([url]).map((said) => `${key}=${said}`))
      if (lines.length === 0) return { env: {}, files: [] }
      // The weakest of npm's files: what the project or the agent says goes before it, as before the user's own.
      const target = `${insideFolder}/npmrc`
      const text = [...kept.map(addressesOnly), ...lines, ''].join('\n')
      return { env: { npm_config_globalconfig: target }, files: [{ name: 'npmrc', target, text }] }
    },
  }
}

/** `pip config list`: the variables first, then the section of the command, then that of all. */
function pipSettings(text: string): (key: string) => string[] {
  const lines = text.split('\n').map((line) => /^([^=]+?)\.([a-z-]+)=(.*)$/.exec(line.trim()))
  return (key) => {
    const found = (section: string) => lines.find((line) => line?.[1] === section && line[2] === key)?.[3]
    const value = [':env:', 'install', 'download', 'global'].map(found).find((said) => said !== undefined)
    return (value ?? '')
      .replaceAll(/\\[nrt]/g, ' ')
      .replaceAll(/^['"]|['"]$/g, '')
      .split(/\s+/)
      .filter(Boolean)
  }
}

export async function pip(context: PresetContext): Promise<Found> {
  const asked = 'pip'
  const heard = await overheard(context, {
    command: (folder, port) => [
      'pip',
      'download',
      asked,
      ...'--no-deps --no-cache-dir --retries 0 --no-input --disable-pip-version-check'.split(' '),
      // Before what pip.conf says.
      '--proxy',
      `http://127.0.0.1:${port}`,
      '--dest',
      folder,
    ],
    env: () => toolEnv(context),
  })
  const said = pipSettings(await outputApart(context, ['pip', 'config', 'list']))
  const indexes = [...said('index-url'), ...said('extra-index-url')].flatMap(urlsIn)
  const links = said('find-links').flatMap(urlsIn)
  const pages = indexes.length > 0 ? indexes : heard.map((host) => `${urlOf(host)}simple`)
  const listed = [...pages.map((url) => `${url.replace(/\/$/, '')}/${asked}/`), ...links]
  const files = await Promise.all(
    listed.map(async (url) => hostsOf(urlsIn((await read(context, url)) ?? ''))),
  )
  return {
    hosts: [...heard, ...hostsOf([...indexes, ...links])],
    learnt: files.flat(),
    tell: (open) => ({
      env: {
        PIP_INDEX_URL: open(said('index-url'))[0] ?? '',
        PIP_EXTRA_INDEX_URL: open(said('extra-index-url')).join(' '),
        PIP_FIND_LINKS: open(said('find-links')).join(' '),
        PIP_TRUSTED_HOST: said('trusted-host').join(' '),
      },
      files: [],
    }),
  }
}

export async function go(context: PresetContext): Promise<Found> {
  const names = ['GOPROXY', 'GOSUMDB', 'GOPRIVATE', 'GONOPROXY', 'GONOSUMDB', 'GOINSECURE']
  const values = parseJson(await outputApart(context, ['go', 'env', '-json', ...names]))
  const value = (name: string) => String(values[name] ?? '')
  // "name", "name+key" or "name+key url": without a url the name is the host.
  const [name = '', url] = value('GOSUMDB').split(' ')
  const checksums = url ?? (name === '' || name === 'off' ? '' : `https://${name.split('+')[0] ?? ''}`)
  const proxies = value('GOPROXY').split(/([,|])/)
  // What is no url, and none of go's own words, could be a piece of a password.
  const isSaid = (part: string) => /^(direct|off|[,|])$/.test(part) || hostsOf([part]).length > 0
  const env = {
    ...Object.fromEntries(names.map((each) => [each, value(each)])),
    GOSUMDB: value('GOSUMDB').split(' ').map(addressOf).join(' '),
    GOPROXY: proxies.every(isSaid) ? proxies.map(addressOf).join('') : '',
  }
  return {
    hosts: hostsOf([...proxies, checksums]),
    tell: () => ({ env, files: [] }),
  }
}

type Tables = Readonly<Record<string, Readonly<Record<string, unknown>>>>
const tablesOf = (value: unknown): Tables =>
  typeof value === 'object' && value !== null ? (value as Tables) : {}

/** As cargo itself reads its files; the command is there in every cargo, and said to be for trying out. */
async function cargoConfig(context: PresetContext): Promise<{ source: Tables; registries: Tables }> {
  const asked = ['cargo', '-Zunstable-options', 'config', 'get', '--format', 'json-value'] as const
  const { source, registries } = parseJson(await outputApart(context, [...asked], { RUSTC_BOOTSTRAP: '1' }))
  return { source: tablesOf(source), registries: tablesOf(registries) }
}

/** A table of cargo's with the keys that lead somewhere, and none that could be a secret. */
function cargoTable(kind: string, name: string, values: Readonly<Record<string, unknown>>): string[] {
  const keys = kind === 'source' ? ['registry', 'replace-with'] : ['index']
  const lines = keys.flatMap((key) => {
    const value = values[key]
    if (typeof value !== 'string') return []
    // A url that leads to no host we could read may have its password where we do not look for it.
    if (key !== 'replace-with' && hostsOf([value]).length === 0) return []
    return [`${key} = ${JSON.stringify(addressOf(value))}`]
  })
  return lines.length === 0 ? [] : [`[${kind}.${JSON.stringify(name)}]`, ...lines]
}

export async function cargo(context: PresetContext): Promise<Found> {
  const home = context.env['CARGO_HOME'] ?? join(context.home, '.cargo')
  const heard = await overheard(context, {
    prepare: async (folder) => {
      await mkdir(join(folder, 'home'))
      await mkdir(join(folder, 'src'))
      for (const name of ['config.toml', 'config']) {
        const text = await readRegularFile(join(home, name)).catch(() => null)
        if (text !== null) await writeFile(join(folder, 'home', name), text)
      }
      await writeFile(join(folder, 'src/lib.rs'), '')
      await writeFile(
        join(folder, 'Cargo.toml'),
        '[package]\nname = "preset"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\nserde = "*"\n',
      )
    },
    command: () => ['cargo', 'fetch', '-q'],
    env: (folder, port) => ({
      ...toolEnv(context),
      RUSTUP_HOME: context.env['RUSTUP_HOME'] ?? join(context.home, '.rustup'),
      CARGO_HOME: join(folder, 'home'),
      CARGO_NET_RETRY: '0',
      // Before what config.toml says.
      CARGO_HTTP_PROXY: `http://127.0.0.1:${port}`,
    }),
  })
  const { source, registries } = await cargoConfig(context)
  const urls = [
    ...Object.values(registries).map(({ index }) => index),
    ...Object.values(source).map((each) => each['registry']),
  ].filter((url) => typeof url === 'string')
  const sparse = urls.flatMap((url) => /^sparse\+(.*)$/.exec(url)?.[1] ?? [])
  const indexes = [...sparse.map((url) => addressOf(url).replace(/\/?$/, '/')), ...heard.map(urlOf)]
  const files = await Promise.all(
    indexes.map(async (url) => {
      const { dl } = parseJson((await read(context, `${url}config.json`)) ?? '')
      return typeof dl === 'string' ? hostsOf([dl]) : []
    }),
  )
  // A source in a folder is not in the sandbox: to be told of it would leave cargo with nothing at all.
  const isTold = (name: unknown, left = 8): boolean => {
    const { registry, 'replace-with': next } = source[String(name)] ?? {}
    if (left === 0) return false
    return next === undefined
      ? hostsOf([String(registry ?? '')]).length > 0 || String(name) in registries
      : isTold(next, left - 1)
  }
  const told = ({ 'replace-with': next, ...values }: Readonly<Record<string, unknown>>) =>
    isTold(next) ? { ...values, 'replace-with': next } : values
  const lines = [
    ...Object.entries(source).flatMap(([name, values]) => cargoTable('source', name, told(values))),
    ...Object.entries(registries).flatMap(([name, values]) => cargoTable('registries', name, values)),
  ]
  // cargo looks in every folder above a project; this is the outermost, so that a project's own goes before it.
  const file = { name: 'cargo.toml', target: '/.cargo/config.toml', text: [...lines, ''].join('\n') }
  return {
    hosts: [...heard, ...hostsOf(urls)],
    learnt: files.flat(),
    tell: () => ({ env: {}, files: lines.length === 0 ? [] : [file] }),
  }
}
