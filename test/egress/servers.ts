import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttp, type RequestListener } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** The path of a program, or null where the machine has none. */
export async function findProgram(name: string): Promise<string | null> {
  for (const dir of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(dir, name)
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return path
  }
  return null
}

export type Site = AsyncDisposable & {
  readonly http: number
  readonly https: number
  /** `host path` of every request. */
  readonly requests: string[]
  /** The Authorization header of every request. */
  readonly secrets: (string | undefined)[]
  readonly authority: string
  readonly dir: string
  /** Serves a body under a path. */
  put(path: string, body: string | Buffer, type?: string): void
  /** Serves a folder's files under a path. */
  folder(path: string, dir: string): void
}

/** A web server on loopback, plain and TLS, with certificates of its own making; `/breaks` is reset in the middle. */
export async function makeSite(names: readonly string[]): Promise<Site> {
  const dir = await mkdtemp(join(tmpdir(), 'egress-site-'))
  const requests: string[] = []
  const secrets: (string | undefined)[] = []
  const bodies = new Map<string, { body: string | Buffer; type: string }>()
  const folders = new Map<string, string>()
  const sockets = new Set<Socket>()
  const serve: RequestListener = (request, response) => {
    const url = (request.url ?? '/').split('?')[0] ?? '/'
    secrets.push(request.headers.authorization)
    requests.push(`${request.headers.host ?? ''} ${url}`)
    if (url === '/breaks') {
      response.writeHead(200, { 'Content-Length': 1000 }).write('partial')
      const broken = [...sockets].find(({ remotePort }) => remotePort === request.socket.remotePort)
      return void setTimeout(() => broken?.resetAndDestroy(), 300)
    }
    const found = bodies.get(decodeURIComponent(url))
    if (found !== undefined) {
      response.writeHead(200, { 'Content-Type': found.type })
      return void response.end(found.body)
    }
    const [path, folder] = [...folders].find(([prefix]) => url.startsWith(prefix)) ?? []
    if (path === undefined || folder === undefined) return void response.writeHead(404).end('nothing here\n')
    readFile(join(folder, url.slice(path.length))).then(
      (body) => response.end(body),
      () => response.writeHead(404).end(),
    )
  }
  await certify(dir, names)
  const [key, cert] = await Promise.all([readFile(join(dir, 'site.key')), readFile(join(dir, 'site.crt'))])
  const http = createHttp(serve).listen(0, '127.0.0.1')
  const https = createHttps({ key, cert }, serve).listen(0, '127.0.0.1')
  for (const server of [http, https])
    server.on('connection', (socket: Socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    })
  await Promise.all([once(http, 'listening'), once(https, 'listening')])
  return {
    http: (http.address() as AddressInfo).port,
    https: (https.address() as AddressInfo).port,
    requests,
    secrets,
    authority: join(dir, 'authority.crt'),
    dir,
    put: (path, body, type = 'application/octet-stream') => bodies.set(path, { body, type }),
    folder: (path, folder) => folders.set(path, folder),
    async [Symbol.asyncDispose]() {
      for (const server of [http, https]) {
        server.close()
        server.closeAllConnections()
      }
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function certify(dir: string, names: readonly string[]): Promise<void> {
  const openssl = async (...args: string[]) => {
    const work = execute('openssl', args, { cwd: dir })
    work.child.stdin?.end()
    await work
  }
  const key = ['-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  await openssl(
    'req',
    '-x509',
    ...key,
    '-keyout',
    'authority.key',
    '-out',
    'authority.crt',
    '-subj',
    '/CN=Test authority',
    '-days',
    '2',
  )
  await openssl(
    'req',
    ...key,
    '-keyout',
    'site.key',
    '-out',
    'site.csr',
    '-subj',
    `/CN=${names[0] ?? 'site'}`,
  )
  await writeFile(join(dir, 'san'), `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}\n`)
  await openssl(
    'x509',
    '-req',
    '-in',
    'site.csr',
    '-CA',
    'authority.crt',
    '-CAkey',
    'authority.key',
    '-out',
    'site.crt',
    '-days',
    '2',
    '-extfile',
    'san',
  )
}

export const sha = (algorithm: string, bytes: Buffer, encoding: 'hex' | 'base64' = 'hex') =>
  createHash(algorithm).update(bytes).digest(encoding)

/** Packs files into an archive with the machine's own tar or zip (through python, which pip needs anyway). */
export async function pack(dir: string, name: string, files: Record<string, string>): Promise<Buffer> {
  const folder = join(dir, `pack-${name}`)
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, path, '..'), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  const out = join(dir, name)
  if (name.endsWith('.zip') || name.endsWith('.whl')) {
    const script =
      'import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1],"w")\nfor p in sys.argv[2:]: z.write(p)\nz.close()'
    await execute('python3', ['-c', script, out, ...Object.keys(files)], { cwd: folder })
  } else await execute('tar', ['-czf', out, ...Object.keys(files)], { cwd: folder })
  return readFile(out)
}

/** Skips a test whose program this machine does not have, and says so. */
export const has = async (program: string, skip: (note: string) => void) => {
  if (program !== process.execPath && (await findProgram(program)) === null)
    skip(`no ${program} on this machine`)
}

/** Where rustup keeps its toolchains, which a private home hides. */
export const rustHomes = (): Record<string, string> => {
  const home = process.env['HOME'] ?? '/root'
  return { RUSTUP_HOME: process.env['RUSTUP_HOME'] ?? join(home, '.rustup') }
}
