import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { git } from '../../src/engine/base/git.ts'
import { run } from '../../src/engine/base/process.ts'
import { type Ground, lookAtHost, makeGround, runIn } from '../../src/engine/sandbox/fixture.ts'
import type { HostFacts } from '../../src/engine/sandbox/index.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

type Program = {
  readonly name: string
  /** Program without which there is nothing to show. */
  readonly needs: string
  readonly script: string
  readonly says: RegExp
  readonly level?: 0
  prepare?(ground: Ground): Promise<void>
  grants?(): Promise<readonly string[]>
}

async function makeRepository({ root }: Ground): Promise<void> {
  await git(['init', '-q', '-b', 'main', root])
  await mkdir(join(root, 'src'))
  await writeFile(join(root, 'src', 'a.txt'), 'one\n')
  await git(['add', '-A'], { cwd: root })
  await git(['commit', '-qm', 'first'], { cwd: root })
}

async function makePackage({ root }: Ground): Promise<void> {
  await mkdir(join(root, 'dep'))
  await writeFile(join(root, 'dep', 'package.json'), '{"name":"dep","version":"1.0.0","main":"index.js"}')
  await writeFile(join(root, 'dep', 'index.js'), 'module.exports = 42\n')
  await writeFile(
    join(root, 'package.json'),
    '{"name":"app","version":"1.0.0","scripts":{"test":"node --test"},"dependencies":{"dep":"file:dep"}}',
  )
  await writeFile(
    join(root, 'app.test.js'),
    'const test = require("node:test"); test("works", () => { if (require("dep") !== 42) throw new Error() })\n',
  )
}

/** The least that npm takes for a registry: one package, which lies beside it. */
const registry = `
const { createServer } = require('node:http')
const { readFileSync, writeFileSync } = require('node:fs')
const tarball = readFileSync('dep-1.0.0.tgz')
const integrity = 'sha512-' + require('node:crypto').createHash('sha512').update(tarball).digest('base64')
const server = createServer((request, response) => {
  if (request.url.endsWith('.tgz')) return response.end(tarball)
  const dist = { tarball: 'http://127.0.0.1:' + server.address().port + '/dep/-/dep-1.0.0.tgz', integrity }
  const version = { name: 'dep', version: '1.0.0', main: 'index.js', dist }
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ name: 'dep', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }))
})
server.listen(0, '127.0.0.1', () => writeFileSync('port', String(server.address().port)))
`

const cSource = '#include <stdio.h>\nint main(void) { puts("made"); return 0; }\n'

/** What works inside; the list is the documentation of it too. */
const programs: readonly Program[] = [
  {
    name: 'git status, commit, diff and log',
    needs: 'git',
    prepare: makeRepository,
    script:
      'git status --short; echo two >>src/a.txt; git diff --stat; git -c user.name=a -c user.email=a@b commit -qam second; git log --format=%s; git stash list; git checkout -qb side',
    says: /src\/a\.txt[^]*second\nfirst\n/,
  },
  {
    name: 'git worktree and gc',
    needs: 'git',
    prepare: makeRepository,
    script: 'git worktree add -q ../project/wt -b w && ls wt/src && git gc -q && git fsck && echo sound',
    says: /a\.txt\nsound/,
  },
  {
    name: 'npm install and npm ci from the project, npm test',
    needs: 'npm',
    prepare: makePackage,
    script:
      'npm install --offline --no-audit --no-fund && rm -rf node_modules && npm ci --offline --no-audit --no-fund && npm test',
    says: /pass 1/,
  },
  {
    name: 'npm ci from a registry that runs inside',
    needs: 'npm',
    prepare: async ({ root }) => {
      await mkdir(join(root, 'dep'))
      await writeFile(join(root, 'dep', 'package.json'), '{"name":"dep","version":"1.0.0","main":"index.js"}')
      await writeFile(join(root, 'dep', 'index.js'), 'module.exports = 42\n')
      await writeFile(
        join(root, 'package.json'),
        '{"name":"app","version":"1.0.0","dependencies":{"dep":"1.0.0"}}',
      )
      await writeFile(join(root, 'registry.cjs'), registry)
    },
    script: `(cd dep && npm pack --silent --pack-destination .. >/dev/null) || exit 1
      node registry.cjs & n=0; while [ ! -s port ] && [ $n -lt 1000 ]; do sleep 0.02; n=$((n+1)); done
      npm="npm --registry http://127.0.0.1:$(cat port) --no-audit --no-fund --no-update-notifier"
      $npm install && rm -rf node_modules ~/.npm && $npm ci && node -p 'require("dep")'; code=$?
      kill $!; exit $code`,
    says: /^42$/m,
  },
  {
    name: 'node --test with workers and a child process',
    needs: 'node',
    prepare: async ({ root }) => {
      await writeFile(
        join(root, 'a.test.js'),
        `const test = require('node:test'); const { Worker } = require('node:worker_threads'); const { execFileSync } = require('node:child_process')
test('worker', (t, done) => new Worker('1', { eval: true }).on('exit', () => done()))
test('child', () => { execFileSync('true') })\n`,
      )
    },
    script: 'node --test',
    says: /pass 2/,
  },
  {
    name: 'python3 -m venv and a program in it',
    needs: '/usr/bin/python3',
    script:
      '/usr/bin/python3 -m venv env && . env/bin/activate && python -c "import sqlite3, ssl, sys; print(sys.prefix)"',
    says: /\/env\n/,
  },
  {
    name: 'make with gcc',
    needs: 'gcc',
    prepare: async ({ root }) => {
      await writeFile(join(root, 'main.c'), cSource)
      await writeFile(join(root, 'Makefile'), 'main: main.c\n\tgcc -O2 -o main main.c\n')
    },
    script: 'make -j2 && ./main',
    says: /made\n/,
  },
  {
    name: 'cargo build offline, with the toolchain granted',
    needs: 'cargo',
    grants: async () => [(await run('rustc', ['--print', 'sysroot'])).stdout.toString().trim()],
    prepare: async ({ root }) => {
      await mkdir(join(root, 'src'))
      await writeFile(
        join(root, 'Cargo.toml'),
        '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n',
      )
      await writeFile(join(root, 'src', 'main.rs'), 'fn main() { println!("made") }\n')
    },
    script: 'cargo build --offline -q && ./target/debug/app',
    says: /made\n/,
  },
  {
    name: 'a dev server and a client inside',
    needs: 'node',
    script: `node -e 'const s = require("http").createServer((q, r) => r.end("served")).listen(0, async () => { console.log(await (await fetch("http://localhost:" + s.address().port)).text()); s.close() })'`,
    says: /served\n/,
  },
  {
    name: 'renaming folders by mv, and editors that replace files',
    needs: 'mv',
    prepare: async ({ root }) => {
      await mkdir(join(root, 'old', 'deep'), { recursive: true })
      await writeFile(join(root, 'old', 'deep', 'file'), 'kept\n')
    },
    script:
      'mv old new && cat new/deep/file && sed -i s/kept/changed/ new/deep/file && cat new/deep/file && ! ls old 2>/dev/null',
    says: /kept\nchanged\n/,
  },
  {
    name: 'pipes, jobs, temporary files, locks and shared memory',
    needs: 'flock',
    script:
      'mktemp >/dev/null && flock lock echo locked && seq 5 | tail -1 && (sleep 0.05 & wait) && touch /dev/shm/x && perl -e "use threads; print qq(threads\\n)" 2>/dev/null; echo ended',
    says: /locked\n5\n(threads\n)?ended\n/,
  },
  {
    name: 'a debugger, at the level that allows it',
    needs: 'gdb',
    level: 0,
    prepare: async ({ root }) => writeFile(join(root, 'main.c'), cSource),
    script: 'gcc -g -o main main.c && gdb -q -batch -ex run ./main 2>&1',
    says: /made[^]*exited normally/,
  },
]

const isInstalled = async (program: string) => (await run('sh', ['-c', `command -v ${program}`])).code === 0

describe('works inside', () => {
  test.for(programs)('$name', async ({ needs, prepare, grants, script, says, level }, { skip }) => {
    skip(!(await isInstalled(needs)), `no ${needs} on this machine`)
    await using ground = await makeGround()
    await prepare?.(ground)
    const outcome = await runIn(ground, host, script, {
      grants: (await grants?.()) ?? [],
      ...(level === 0 ? { level, network: 'host' } : {}),
    })
    expect(outcome, outcome.stderr).toMatchObject({ exitCode: 0, signal: null })
    expect(outcome.stdout).toMatch(says)
  })
})

test('a debugger is refused at level 1, with an error it can report', async ({ skip }) => {
  skip(!(await isInstalled('strace')) && !(await isInstalled('gdb')), 'no debugger on this machine')
  await using ground = await makeGround()
  const outcome = await runIn(ground, host, 'strace -o /dev/null true 2>&1; gdb -q -batch -ex run true 2>&1')
  expect(outcome.stdout).toMatch(/not permitted/i)
})

test('an agent that trashes everything it sees leaves the next run of the project clean', async () => {
  await using first = await makeGround()
  const litter = 'touch ~/left /tmp/left /var/left /dev/shm/left left'
  const trashed = await runIn(first, host, `${litter}; ls -A ~ /tmp; rm -f README.md; kill -9 -1`)
  // The control: what is looked for in the next run was there in this one.
  expect(trashed.stdout.match(/left/g)).toHaveLength(2)
  await runIn(first, host, 'rm -rf --no-preserve-root / 2>/dev/null; rm -rf ./* ~/* /tmp/*; kill -9 -1')
  expect(await readFile(join(first.root, 'README.md'), 'utf8')).toBe('original\n')
  await using second = await makeGround('project')
  const request = second.request(['true'])
  const [root] = request.workspace.roots
  if (root?.mount.kind !== 'overlay') throw new Error('no overlay')
  const workspace = {
    ...request.workspace,
    roots: [{ ...root, path: first.root, target: first.root, mount: { ...root.mount, lower: first.root } }],
  }
  const script = 'cat README.md; ls -A .; find ~ /tmp /var /dev/shm . -name left'
  const outcome = await runIn(second, host, script, { workspace, cwd: first.root })
  expect(outcome.stdout).toBe('original\nREADME.md\n')
})

test('fifty sandboxes at once start, run and leave nothing behind', async () => {
  await using scope = new AsyncDisposableStack()
  const grounds = await Promise.all(Array.from({ length: 50 }, async () => scope.use(await makeGround())))
  const outcomes = await Promise.all(
    grounds.map((ground, index) => runIn(ground, host, `echo ${index} >mine; cat mine; sleep 0.2`)),
  )
  expect(outcomes.map(({ stdout }) => stdout.trim())).toEqual(grounds.map((_, index) => String(index)))
  const all = (await run('ps', ['axww', '-o', 'args'])).stdout.toString()
  for (const { marker } of grounds) expect(all).not.toContain(marker)
  const mounts = await readFile('/proc/self/mountinfo', 'utf8')
  for (const { folder } of grounds) expect(mounts).not.toContain(folder)
})
