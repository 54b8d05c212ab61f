import { access, chmod, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { type Ground, lookAtHost, makeGround, runIn, startOn } from './fixture.ts'
import { detectHost, type HostFacts } from './host/host.ts'
import { describePlan, planSandbox } from './index.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

describe('a level-1 sandbox', () => {
  test('shows the checkout at its own path and keeps what is written there out of it', async () => {
    await using ground = await makeGround()
    const outcome = await runIn(ground, host, 'pwd; cat README.md; echo changed >README.md; echo new >new')
    expect(outcome).toMatchObject({
      exitCode: 0,
      signal: null,
      stdout: `${ground.root}\noriginal\n`,
      stderr: '',
    })
    expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
    expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
    await expect(access(join(ground.root, 'new'))).rejects.toThrow('ENOENT')
  })

  test("reports the command's own exit code, and its signal as 128 + n", async () => {
    await using ground = await makeGround()
    expect(await runIn(ground, host, 'exit 7')).toMatchObject({ exitCode: 7, signal: null })
    expect(await runIn(ground, host, 'kill -TERM $$')).toMatchObject({ exitCode: 143, signal: 'SIGTERM' })
    const { sandbox, finish } = await startOn(ground, ground.request(['no-such-command']), host)
    sandbox.release()
    expect(await finish()).toMatchObject({ exitCode: 127 })
  })

  test('finds itself to be what was declared, before the first instruction', async () => {
    await using ground = await makeGround()
    const { sandbox, finish } = await startOn(ground, ground.request(['touch', 'started']), host)
    await using _ = sandbox
    expect(sandbox.probe.checks.filter((check) => !check.ok)).toEqual([])
    await expect(access(join(ground.upper, 'started'))).rejects.toThrow('ENOENT')
    sandbox.release()
    expect(await finish()).toMatchObject({ exitCode: 0 })
    await access(join(ground.upper, 'started'))
  })

  test('is read-only for a running process until it is widened, and again when narrowed', async () => {
    await using ground = await makeGround()
    const script =
      'touch one 2>/dev/null || echo refused; touch ~/ready; while ! touch two 2>/dev/null; do sleep 0.01; done; echo wide; ' +
      'while touch two 2>/dev/null; do sleep 0.01; done; echo narrow'
    const { sandbox, finish } = await startOn(
      ground,
      ground.request(['sh', '-c', script], { files: 'ro' }),
      host,
    )
    await using _ = sandbox
    sandbox.release()
    await ground.waitForHome('ready')
    await sandbox.setFiles('rw')
    await expect
      .poll(() =>
        access(join(ground.upper, 'two')).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true)
    await sandbox.setFiles('ro')
    expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'refused\nwide\nnarrow\n' })
  })

  test('takes roots whose paths hold every awkward character', async () => {
    await using ground = await makeGround('a b:c,d\\e"f\'g\nh$(i)*')
    const outcome = await runIn(ground, host, 'cat README.md; echo changed >README.md')
    expect(outcome).toMatchObject({ exitCode: 0, stdout: 'original\n', stderr: '' })
    expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
  })

  test('that is killed while it waits or runs ends for good', async () => {
    await using ground = await makeGround()
    const { sandbox, finish } = await startOn(ground, ground.request(['sleep', '1000']), host)
    sandbox.release()
    await sandbox.kill()
    expect(await finish()).toMatchObject({ exitCode: 137, signal: 'SIGKILL' })
  })
})

describe('level 0', () => {
  test('keeps the changeset but hides nothing', async () => {
    await using ground = await makeGround()
    await writeFile(join(ground.folder, 'beside'), 'seen\n')
    const outcome = await runIn(ground, host, 'cat ../beside; id -u; echo changed >README.md', {
      level: 0,
      network: 'host',
    })
    expect(outcome).toMatchObject({ exitCode: 0, stdout: `seen\n${host.uid}\n`, stderr: '' })
    expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
    expect(await readFile(join(ground.upper, 'README.md'), 'utf8')).toBe('changed\n')
  })
})

test('a plan reads the same each time it is described', async () => {
  await using ground = await makeGround()
  const request = ground.request(['true'])
  expect(describePlan(planSandbox(request, host))).toBe(describePlan(planSandbox(request, host)))
})

test('a root named through a symlink is there by both names, and both are the workspace', async () => {
  await using ground = await makeGround()
  const link = join(ground.folder, 'link')
  await symlink(ground.root, link)
  const request = ground.request(['true'])
  const [first] = request.workspace.roots
  if (first === undefined) throw new Error('no root')
  const workspace = { ...request.workspace, roots: [{ ...first, target: link }] }
  const script = `pwd; echo by link >README.md; cat '${ground.root}/README.md'`
  const outcome = await runIn(ground, host, script, { workspace, cwd: link })
  expect(outcome.stdout).toBe(`${link}\nby link\n`)
  const bare = await runIn(ground, host, script, { workspace, cwd: link, level: 0, network: 'host' })
  expect(bare.stdout).toBe(`${link}\nby link\n`)
  expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
})

test('an agent run by root cannot read a file of root alone below /opt, but a project in a closed folder there', async ({
  skip,
}) => {
  skip(process.getuid?.() !== 0, 'only root can put something below /opt')
  await using secret = await makeGround('project', '/opt')
  // Closed to others, as mkdtemp makes it.
  await using open = await makeGround()
  await writeFile(join(secret.folder, 'key'), 'loot')
  const facts = await detectHost(open.dataDir)
  const script = `cat '${secret.folder}/key' || echo refused; cat README.md`
  expect(await runIn(open, facts, script)).toMatchObject({ stdout: 'refused\noriginal\n' })
  expect(await runIn(secret, facts, script)).toMatchObject({ stdout: 'refused\noriginal\n' })
  expect(await runIn(open, host, `cat '${secret.folder}/key'`)).toMatchObject({ stdout: 'loot' })
  await rm(secret.folder, { recursive: true })
  expect(await runIn(open, facts, 'cat README.md')).toMatchObject({ stdout: 'original\n' })
})

test('a secret of /etc that is replaced while an agent of root runs stays hidden, by a layer or one by one', async ({
  skip,
}) => {
  skip(process.getuid?.() !== 0, 'only root can put something into /etc')
  await using ground = await makeGround()
  const secret = `/etc/.${ground.marker}`
  await using _ = { [Symbol.asyncDispose]: () => rm(secret, { force: true }) }
  await writeFile(secret, 'loot\n', { mode: 0o600 })
  const facts = await detectHost(ground.dataDir)
  expect(facts.etcLayer?.hidden.map(({ path }) => path)).toContain(secret)
  const script = `cat ${secret} || echo refused; touch ~/looked; while [ ! -e ~/replaced ]; do sleep 0.01; done; cat ${secret} || echo refused`
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), facts)
  await using running = sandbox
  running.release()
  await ground.waitForHome('looked')
  await writeFile(`${secret}.new`, 'new loot\n', { mode: 0o600 })
  await rename(`${secret}.new`, secret)
  await ground.writeHome('replaced')
  expect(await finish()).toMatchObject({ stdout: 'refused\nrefused\n' })
  expect(await runIn(ground, host, `cat ${secret}`)).toMatchObject({ stdout: 'new loot\n' })
  const oneByOne = await runIn(ground, { ...facts, etcLayer: null }, `cat ${secret} || echo refused; id -un`)
  expect(oneByOne.stdout).toBe('refused\nagent\n')
})

test('an agent is a user of its own, whose files of /etc are ours', async () => {
  await using ground = await makeGround()
  const script =
    'id -un; grep nameserver /etc/resolv.conf; grep -c localhost /etc/hosts; touch /etc/passwd || echo refused'
  expect(await runIn(ground, host, script)).toMatchObject({
    stdout: 'agent\nnameserver 127.0.0.53\n2\nrefused\n',
  })
})

test('of several roots one is read-only however wide the boundary gets, and a hidden one is not there', async () => {
  await using ground = await makeGround()
  await using other = await makeGround('other')
  await using away = await makeGround('away', process.getuid?.() === 0 ? '/opt' : undefined)
  // Open to others, or sandboxes that start meanwhile would cover it as a secret of root's.
  await chmod(away.folder, 0o755)
  const rootOf = (from: Ground, access: 'rw' | 'ro' | 'hidden') => {
    const [root] = from.request(['true']).workspace.roots
    if (root === undefined) throw new Error('no root')
    return { ...root, access }
  }
  const roots = [rootOf(ground, 'rw'), rootOf(other, 'ro'), rootOf(away, 'hidden')]
  const script =
    `touch new; cat '${other.root}/README.md'; touch '${other.root}/new' || echo refused; ` +
    `cat '${away.root}/README.md' || echo hidden; touch ~/ready; while [ ! -e ~/wide ]; do sleep 0.01; done; ` +
    `touch '${other.root}/new' || echo refused again`
  const workspace = { ...ground.request(['true']).workspace, roots }
  const request = ground.request(['sh', '-c', script], { workspace, secretDirs: [] })
  expect(describePlan(planSandbox(request, host))).toContain(
    `hidden     ${away.root} (a root that is hidden by the spec)`,
  )
  const { sandbox, finish } = await startOn(ground, request, host)
  await using _ = sandbox
  expect(sandbox.probe.checks.filter(({ ok }) => !ok)).toEqual([])
  expect(sandbox.probe.checks).toContainEqual(
    expect.objectContaining({ name: `read ${away.root}`, actual: 'no' }),
  )
  sandbox.release()
  await ground.waitForHome('ready')
  await sandbox.setFiles('ro')
  await sandbox.setFiles('rw')
  await ground.writeHome('wide')
  expect(await finish()).toMatchObject({ stdout: 'original\nrefused\nhidden\nrefused again\n' })
  await access(join(ground.upper, 'new'))
  await expect(access(join(other.upper, 'new'))).rejects.toThrow('ENOENT')
})

describe('a plan is refused before anything starts', () => {
  test.each<[string, (facts: HostFacts) => HostFacts, string | RegExp]>([
    [
      'without user namespaces',
      (facts) => ({ ...facts, userNamespaces: { ok: false, why: 'switched off', fix: 'x' } }),
      'user namespaces: switched off',
    ],
    [
      'without bubblewrap',
      (facts) => ({ ...facts, tools: { ...facts.tools, bwrap: null } }),
      'bwrap: not installed',
    ],
    [
      'with a set-uid bubblewrap',
      (facts) => ({ ...facts, bubblewrap: { version: '0.8.0', isSetuid: true, starts: { ok: true } } }),
      'set-uid',
    ],
    [
      'with an old bubblewrap',
      (facts) => ({ ...facts, bubblewrap: { version: '0.6.2', isSetuid: false, starts: { ok: true } } }),
      'older than 0.8',
    ],
    [
      'with a bubblewrap that tells its version and makes no sandbox',
      (facts) => ({
        ...facts,
        bubblewrap: { version: '0.8.0', isSetuid: false, starts: { ok: false, why: 'no', fix: 'x' } },
      }),
      'bubblewrap: no',
    ],
    [
      'with every reason, where there are several',
      (facts) => ({
        ...facts,
        overlay: { ok: false, why: 'nfs', fix: 'x' },
        architecture: null,
      }),
      'workspace: nfs; seccomp: no filter for this processor',
    ],
    [
      'with every program that is missing',
      (facts) => ({
        ...facts,
        tools: { ...facts.tools, setsid: null, bwrap: null, nsenter: null, find: null },
      }),
      /^setsid: .*; find: .*; bwrap: .*; nsenter: /,
    ],
    [
      'without an overlay',
      (facts) => ({ ...facts, overlay: { ok: false, why: 'nfs', fix: 'x' } }),
      'workspace: nfs',
    ],
    ['on another processor', (facts) => ({ ...facts, architecture: null }), 'no filter for this processor'],
  ])('%s', async (_, change, message) => {
    await using ground = await makeGround()
    expect(() => planSandbox(ground.request(['true']), change(host))).toThrow(message)
  })

  test('at level 0 that is to hide something', async () => {
    await using ground = await makeGround()
    expect(() => planSandbox(ground.request(['true'], { level: 0, hide: ['.env'] }), host)).toThrow(
      'level 0 hides nothing',
    )
  })
})

test('a sandbox whose filter lets everything pass keeps its gate shut', async () => {
  await using ground = await makeGround()
  const bwrap = join(ground.folder, 'bwrap')
  // One instruction: allow.
  const program = String.raw`printf '\006\000\000\000\000\000\377\177'`
  await writeFile(bwrap, `#!/bin/bash\nexec '${host.tools.bwrap}' "$@" 0< <(${program})\n`, { mode: 0o755 })
  const faulty = { ...host, tools: { ...host.tools, bwrap } }
  const { sandbox } = await startOn(ground, ground.request(['true']), faulty)
  await using _sandbox = sandbox
  expect(sandbox.probe.checks.filter(({ ok }) => !ok).map(({ name }) => name)).toEqual([
    'filter of system calls',
  ])
})

test('a sandbox that stays in the session of its host keeps its gate shut', async () => {
  await using ground = await makeGround()
  const bwrap = join(ground.folder, 'bwrap')
  const without = `exec '${host.tools.bwrap}' --args 100 "\${@:3}" 100< <(grep -zvx -e --new-session <&"$2")`
  await writeFile(bwrap, `#!/bin/bash\n${without}\n`, { mode: 0o755 })
  const faulty = { ...host, tools: { ...host.tools, bwrap } }
  const { sandbox } = await startOn(ground, ground.request(['true']), faulty)
  await using _sandbox = sandbox
  expect(sandbox.probe.checks.filter(({ ok }) => !ok).map(({ name }) => name)).toEqual(['session'])
})

test.each([
  ['shows our own folder', (ground: Ground) => `--ro-bind '${ground.dataDir}' '${ground.dataDir}'`, 'see '],
  ['leaves a place writable', () => '--bind /usr /usr', 'writable places'],
  ['is root to itself', () => '--uid 0 --gid 0', 'user and group'],
  ['passes a variable on', () => '--setenv LEAKED 1', 'environment at the gate'],
  ['has the name of another host', () => '--hostname elsewhere', 'host name'],
  ['stands elsewhere', () => '--chdir /', 'stand in '],
  ['shows another folder', () => '--ro-bind /var /tmp/x', 'mounts beyond the plan'],
  ['covers what was planned', () => '--ro-bind /var /home/agent', 'mounts beyond the plan'],
])(
  'a sandbox that %s, as nobody planned, keeps its gate shut',
  async (_, optionsFor: (ground: Ground) => string, check) => {
    // Inside, folders can still be made there where all else is sealed.
    await using ground = await makeGround('project', '/tmp')
    const bwrap = join(ground.folder, 'bwrap')
    // Earlier versions left it behind.
    await rm('/usr/.orangery-probe', { force: true }).catch(() => {})
    // Bubblewrap, with a fault of its own: what it is told, and then some more.
    const line = `args=$1 number=$2; shift 2; exec '${host.tools.bwrap}' $args $number ${optionsFor(ground)} "$@"`
    await writeFile(bwrap, `#!/bin/sh\n${line}\n`, { mode: 0o755 })
    const faulty = { ...host, tools: { ...host.tools, bwrap } }
    const { sandbox, finish } = await startOn(ground, ground.request(['touch', 'started']), faulty)
    await using _sandbox = sandbox
    expect(sandbox.probe.ok).toBe(false)
    const wrong = sandbox.probe.checks.filter(({ ok }) => !ok).map(({ name }) => name)
    expect(wrong).toContainEqual(expect.stringContaining(check))
    expect(() => sandbox.release()).toThrow()
    await sandbox.kill()
    await finish()
    await expect(access(join(ground.upper, 'started'))).rejects.toThrow('ENOENT')
    // Nor does what tried it leave anything on the host.
    await expect(access('/usr/.orangery-probe')).rejects.toThrow('ENOENT')
  },
)

test('a root of real files that became a link before it was mounted keeps the gate shut', async () => {
  await using ground = await makeGround()
  const { workspace } = ground.request(['true'])
  const roots = workspace.roots.map((root) => ({
    ...root,
    mount: { kind: 'bind' as const, source: ground.root },
  }))
  const request = ground.request(['cat', 'key'], {
    workspace: { ...workspace, strategy: 'none', driver: 'direct', roots },
  })
  const asBefore = await startOn(ground, request, host)
  await using before = asBefore.sandbox
  expect(before.probe.checks.filter(({ ok }) => !ok)).toEqual([])
  await before.kill()
  const keys = join(ground.folder, 'keys')
  await mkdir(keys)
  await writeFile(join(keys, 'key'), 'secret')
  await rename(ground.root, `${ground.root}-moved`)
  await symlink(keys, ground.root)
  const { sandbox } = await startOn(ground, request, host)
  await using _ = sandbox
  expect(sandbox.probe.checks.filter(({ ok }) => !ok).map(({ name }) => name)).toContain(
    `folder ${ground.root}`,
  )
  expect(() => sandbox.release()).toThrow('not what was declared')
})

test('where what is left of an overlay cannot be read, nothing starts; a copy needs nobody for that', async () => {
  await using ground = await makeGround()
  const without = { ...host, tools: { ...host.tools, getfattr: null } }
  const request = ground.request(['true'])
  expect(() => planSandbox(request, without)).toThrow('getfattr: not installed on this host')
  const roots = request.workspace.roots.map((root) => ({
    ...root,
    mount: { kind: 'bind' as const, source: ground.upper },
  }))
  const workspace = { ...request.workspace, strategy: 'clone' as const, driver: 'plain-copy' as const, roots }
  expect(planSandbox(ground.request(['true'], { workspace }), without).roots).toEqual([])
})

test('where descriptors that leaked into us could not be closed, nothing starts', async () => {
  await using ground = await makeGround()
  const request = ground.request(['true'])
  const tools = { ...host.tools, bash: null }
  expect(() => planSandbox(request, { ...host, tools, inheritsDescriptors: true })).toThrow(
    'bash: not installed on this host',
  )
  expect(planSandbox(request, { ...host, tools, inheritsDescriptors: false }).roots).toHaveLength(1)
})
