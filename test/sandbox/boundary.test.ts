import { access, cp, link, mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { run } from '../../src/engine/base/process.ts'
import { type Ground, lookAtHost, makeGround, runIn, startOn } from '../../src/engine/sandbox/fixture.ts'
import type { HostFacts } from '../../src/engine/sandbox/host/host.ts'

let host: HostFacts
beforeAll(() => lookAtHost((found) => (host = found)))

/** Narrowed once the script has a file open; it has ended when `finish` answers. */
async function narrowed(ground: Ground, script: string) {
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
  await using scope = new AsyncDisposableStack()
  scope.use(sandbox)
  sandbox.release()
  await ground.waitForHome('open')
  const { note } = await sandbox.setFiles('ro')
  await ground.writeHome('narrow')
  const held = scope.move()
  return {
    note,
    finish: async () => {
      await using _ = held
      return await finish()
    },
  }
}

describe('narrowing while a file is open for writing', () => {
  test('waits for a writer that lets go, and says so', async () => {
    await using ground = await makeGround()
    const script =
      // Let go when it is let run again: it was stopped before, so the file was in the way.
      `sh -c "exec 3>held; trap 'on=1' CONT; touch ~/open; while [ -z \\$on ]; do sleep 0.01; done; echo last words >&3; exec 3>&-; sleep 5" & ` +
      'while [ ! -e ~/narrow ]; do sleep 0.01; done; touch late 2>/dev/null || echo refused; kill $!'
    const { note, finish } = await narrowed(ground, script)
    expect(note).toMatch(/^waited for .*sh \(\d+\) with .*held/)
    expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'refused\n' })
    expect(await readFile(join(ground.upper, 'held'), 'utf8')).toBe('last words\n')
  })

  test('ends a process that never lets go, names it, and spares the others', async () => {
    await using ground = await makeGround()
    const script =
      'sh -c "exec 3>held; touch ~/open; while :; do sleep 0.01; done" & ' +
      'while [ ! -e ~/narrow ]; do sleep 0.01; done; touch late 2>/dev/null || echo refused; wait $!; echo $?'
    const { note, finish } = await narrowed(ground, script)
    expect(note).toMatch(/^ended .*sh \(\d+\) with .*held.*, which did not let go in time$/)
    expect((await finish()).stdout).toMatch(/refused\n137\n/)
  })

  test('is refused, and nothing changes, where the agent itself holds the file', async () => {
    await using ground = await makeGround()
    const script =
      'exec 3>held; touch ~/open; while [ ! -e ~/go ]; do sleep 0.01; done; touch late && echo still'
    const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
    await using _ = sandbox
    sandbox.release()
    await ground.waitForHome('open')
    await expect(sandbox.setFiles('ro')).rejects.toThrow(/files stay writable: .*sh \(\d+\) with .*held/)
    await ground.writeHome('go')
    expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'still\n' })
  })
})

/** Opens the next file before it closes the last, and starts somebody when it cannot open any. */
const overlapping = `use Errno;
open(my $sign, ">", "/home/agent/open"); close $sign;
my ($last, $next, $child, $count);
sub look { open(my $file, "<", "/etc/passwd") or die; syswrite STDOUT, "$_[0] reads on\\n" }
until (-e "/home/agent/narrow") {
  if (!open($next, ">", "file" . ++$count % 50) && $!{EMFILE} && !defined $child) {
    $child = fork;
    if ($child == 0) { close $last; select undef, undef, undef, 0.01 until -e "/home/agent/narrow"; look "child"; exit }
  }
  ($last, $next) = ($next, undef);
}
waitpid $child, 0; look "agent";`

test('a writer with some file open at every moment, but none for long, lets go unharmed, be it the agent itself', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.home, 'overlap.pl'), overlapping)
  const { note, finish } = await narrowed(ground, 'exec perl ~/overlap.pl')
  expect(note).toMatch(/^waited for perl \(\d+\) with .*file\d+, until it could open no other file$/)
  expect(await finish()).toMatchObject({ exitCode: 0, stdout: 'child reads on\nagent reads on\n' })
})

test('of one who keeps a file open and one who writes over and over only the first is ended', async () => {
  await using ground = await makeGround()
  // One file or the other is open at every moment, by the same name.
  const over = 'my ($last, $next); for (;;) { open($next, ">", "over"); ($last, $next) = ($next, undef) }'
  const script =
    `perl -e '${over}' & busy=$!; perl -e 'open my $held, ">", "held"; open my $sign, ">", "/home/agent/open"; sleep 60' & ` +
    'while [ ! -e ~/narrow ]; do sleep 0.01; done; kill -0 $busy && echo lives; kill $busy'
  const { note, finish } = await narrowed(ground, script)
  expect(note).toMatch(/^ended perl \(\d+\) with \S+held, which did not let go in time$/)
  expect((await finish()).stdout).toBe('lives\n')
})

/** Has a file open and goes on in a child of its own, for ever. */
const hopping = `use POSIX;
open my $held, ">>", "held" or die;
exit 0 if fork;
$SIG{CHLD} = "IGNORE";
open my $sign, ">", "/home/agent/open";
for (;;) { my $child = fork; next unless defined $child; POSIX::_exit(0) if $child; }`

test('a writer that goes on in ever new processes is ended and named when files become read-only, and nobody else', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.home, 'hop.pl'), hopping)
  const script =
    'sleep 100 & for each in 1 2 3; do perl ~/hop.pl; done; while [ ! -e ~/narrow ]; do sleep 0.01; done; ' +
    'touch late 2>/dev/null || echo refused; kill $! && echo spared'
  const start = performance.now()
  const { note, finish } = await narrowed(ground, script)
  expect(note).toMatch(/^ended (perl \(\d+\) with \S+held(, )?)+, which did not let go in time$/)
  expect(performance.now() - start).toBeLessThan(8000)
  expect((await finish()).stdout).toBe('refused\nspared\n')
})

test('writers that timers let go on while all is stopped, in ever new processes, keep nothing writable', async ({
  skip,
}) => {
  await using ground = await makeGround()
  const evader = join(import.meta.dirname, 'evader.c')
  const built = await run('gcc', ['-O2', '-w', '-o', join(ground.home, 'evader'), evader]).catch(() => null)
  if (built?.code !== 0) skip('no C compiler')
  const script =
    'for each in 1 2 3 4 5 6; do ~/evader; done; while [ ! -e ~/narrow ]; do sleep 0.01; done; ' +
    'touch late 2>/dev/null || echo refused'
  const { note, finish } = await narrowed(ground, script)
  expect(note).toMatch(/^ended evader \(\d+\).*, which did not let go in time$/)
  expect((await finish()).stdout).toBe('refused\n')
})

test('files become read-only in time where thousands of processes stand by', async () => {
  await using ground = await makeGround()
  const script =
    'i=0; while [ $i -lt 3000 ]; do sleep 100 & i=$((i + 1)); done; ' +
    'sh -c "exec 3>held; touch ~/open; while :; do sleep 0.01; done" & writer=$!; ' +
    'while [ ! -e ~/narrow ]; do sleep 0.01; done; touch late 2>/dev/null || echo refused; wait $writer; echo $?'
  const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
  await using _ = sandbox
  sandbox.release()
  await ground.waitForHome('open')
  let longestWaitMs = 0
  let last = performance.now()
  const beat = setInterval(() => {
    longestWaitMs = Math.max(longestWaitMs, performance.now() - last)
    last = performance.now()
  }, 5)
  const { note, tookMs } = await sandbox.setFiles('ro')
  clearInterval(beat)
  expect(note).toMatch(/^ended .*sh \(\d+\) with .*held.*, which did not let go in time$/)
  // Whoever asked waits ten seconds.
  expect(tookMs).toBeLessThan(10_000)
  expect(longestWaitMs).toBeLessThan(1000)
  await ground.writeHome('narrow')
  expect((await finish()).stdout).toBe('refused\n137\n')
})

/** A shared mapping and no descriptor; `protection` as mmap takes it. */
const mapHeld = (protection: number) =>
  `import ctypes, os, platform, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
f = os.open("held", os.O_RDWR | os.O_CREAT)
os.write(f, b"0" * 4096)
libc.mmap(None, 4096, ${protection}, 1, f, 0)
os.close(f)`

describe('an open file that is in no table of a process, but', () => {
  // Kept from narrowing for good, it would be a veto of any child's.
  test.each([
    [
      'in a message of a socket',
      'import socket, time\na, b = socket.socketpair()\nf = open("held", "w")\nsocket.send_fds(a, [b"x"], [f.fileno()])\nf.close()',
    ],
    [
      'of a thread that parted from the others',
      'import ctypes, threading, time\ndef hold():\n  ctypes.CDLL(None).unshare(0x400)\n  global f\n  f = open("held", "w")\n  while True: time.sleep(1)\nthreading.Thread(target=hold, daemon=True).start()\ntime.sleep(0.2)',
    ],
    ['behind a mapping that may be neither read nor written as yet', mapHeld(0)],
    [
      'behind a mapping of a process whose first thread has ended',
      `${mapHeld(3)}
def stay():
  open("/home/agent/open", "w")
  time.sleep(60)
threading.Thread(target=stay).start()
libc.syscall(60 if platform.machine() == "x86_64" else 93, 0)`,
    ],
  ])('%s, keeps nothing writable: who holds it is ended and named', async (_, hold) => {
    await using ground = await makeGround()
    await writeFile(join(ground.home, 'hold.py'), `${hold}\nopen("/home/agent/open", "w")\ntime.sleep(60)\n`)
    const script =
      'python3 ~/hold.py & while [ ! -e ~/narrow ]; do sleep 0.01; done; touch late 2>/dev/null || echo refused'
    const { note, finish } = await narrowed(ground, script)
    expect(note).toMatch(
      /^ended python3 \(\d+\) with .*(held|a message of a socket).*, which did not let go in time$/,
    )
    expect((await finish()).stdout).toBe('refused\n')
  })
})

describe('a file that is deleted but still open for reading', () => {
  const holdDeleted = `import os, subprocess, time
def sign(name): open("/home/agent/" + name, "w")
def wait(name):
  while not os.path.exists("/home/agent/" + name): time.sleep(0.01)
def write(name):
  try: open(name, "w").close(); print("written")
  except OSError as error: print(error.strerror)
def flags(): return [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == os.getcwd()][0]
def hold():
  open("gone", "w").write("kept"); f = open("gone"); os.unlink("gone"); return f
before = flags()
`
  // Whoever has one cannot be told from who writes by the kernel's answer, and is not in the way of anything.
  test('keeps nothing writable, is read on, and nobody is ended, the agent holding it itself', async () => {
    await using ground = await makeGround()
    await writeFile(
      join(ground.home, 'hold.py'),
      `${holdDeleted}f = hold()
child = subprocess.Popen(["sleep", "100"])
sign("open"); wait("narrow")
write("late"); print(f.read(), child.poll(), flags() == before.replace("rw", "ro"))
sign("seen"); wait("wide")
write("later"); print(flags() == before)
child.kill()
`,
    )
    const { sandbox, finish } = await startOn(
      ground,
      ground.request(['python3', '/home/agent/hold.py']),
      host,
    )
    await using _ = sandbox
    sandbox.release()
    await ground.waitForHome('open')
    expect((await sandbox.setFiles('ro')).note).toMatch(
      /^python3 \(\d+\) with \S+\/gone, deleted but still open.*nobody had to be ended/,
    )
    await ground.writeHome('narrow')
    await ground.waitForHome('seen')
    expect((await sandbox.setFiles('rw')).note).toBeNull()
    await ground.writeHome('wide')
    const { stdout } = await finish()
    expect(stdout).toBe('Read-only file system\nkept None True\nwritten\nTrue\n')
  })

  // Nobody writes: however many there are, what takes long is only to find out for the record who has the file.
  test('is read-only long before it is found out who of hundreds has it', async () => {
    await using ground = await makeGround()
    const script =
      'i=0; while [ $i -lt 400 ]; do sleep 100 & i=$((i + 1)); done; ' +
      'echo kept >gone; exec 3<gone; rm gone; touch ~/open; while [ ! -e ~/narrow ]; do sleep 0.01; done; ' +
      'touch late 2>/dev/null || echo refused'
    const { sandbox, finish } = await startOn(ground, ground.request(['sh', '-c', script]), host)
    await using _ = sandbox
    sandbox.release()
    await ground.waitForHome('open')
    const start = performance.now()
    const { note, tookMs } = await sandbox.setFiles('ro')
    expect(note).toMatch(/sh \(\d+\) with \S+\/gone, deleted but still open/)
    expect(tookMs).toBeLessThan((performance.now() - start) / 2)
    await ground.writeHome('narrow')
    expect((await finish()).stdout).toBe('refused\n')
  })

  test('does not cost its readers their lives, and a writer beside them is ended alone', async () => {
    await using ground = await makeGround()
    await writeFile(
      join(ground.home, 'hold.py'),
      `${holdDeleted}import sys
if sys.argv[1:] == ["reader"]: f = hold(); sign("read"); wait("never")
if sys.argv[1:] == ["stands"]: os.mkdir("place"); os.chdir("place"); os.rmdir("../place"); sign("stood"); wait("never")
if sys.argv[1:] == ["writer"]: f = open("held", "w"); sign("wrote"); wait("never")
children = [subprocess.Popen(["python3", "/home/agent/hold.py", name]) for name in ["reader", "stands", "writer"]]
wait("read"); wait("stood"); wait("wrote"); sign("open"); wait("narrow")
write("late"); children[2].wait(); print([child.poll() for child in children])
for child in children: child.kill()
`,
    )
    const { note, finish } = await narrowed(ground, 'python3 ~/hold.py')
    expect(note).toMatch(/^ended python3 \(\d+\) with \S+\/held, which did not let go in time$/)
    expect((await finish()).stdout).toBe('Read-only file system\n[None, None, -9]\n')
  })
})

test('a file named writable can be written in a read-only workspace, and nothing beside it', async () => {
  await using ground = await makeGround()
  await writeFile(join(ground.root, 'TODO.md'), 'plan\n')
  const outcome = await runIn(
    ground,
    host,
    'echo more >>TODO.md; touch other 2>/dev/null || echo refused; cat TODO.md; ls',
    { files: 'ro', writableFiles: [join(ground.root, 'TODO.md'), join(ground.root, 'NEW.md')] },
  )
  expect(outcome.stdout).toBe('refused\nplan\nmore\nNEW.md\nREADME.md\nTODO.md\n')
  expect(await readFile(join(ground.root, 'TODO.md'), 'utf8')).toBe('plan\n')
  expect(await readFile(join(ground.upper, 'TODO.md'), 'utf8')).toBe('plan\nmore\n')
  await expect(access(join(ground.upper, 'NEW.md'))).rejects.toThrow('ENOENT')
})

test('of a workspace that is a copy, too, only what is named can be written', async () => {
  await using ground = await makeGround()
  await mkdir(join(ground.root, 'src'))
  const script =
    'echo more >>README.md; echo new >>src/made; echo new >>NEW.md; touch other 2>/dev/null || echo refused; cat README.md'
  const writableFiles = ['README.md', 'NEW.md', 'UNUSED.md', 'src'].map((name) => join(ground.root, name))
  const inOverlay = await runIn(ground, host, script, { files: 'ro', writableFiles })
  expect(inOverlay.stdout).toBe('refused\noriginal\nmore\n')
  const copy = join(ground.folder, 'copy')
  await cp(ground.root, copy, { recursive: true, verbatimSymlinks: true })
  const { workspace } = ground.request(['true'])
  const roots = workspace.roots.map((root) => ({ ...root, mount: { kind: 'bind' as const, source: copy } }))
  const inCopy = await runIn(ground, host, script, {
    files: 'ro',
    writableFiles,
    workspace: { ...workspace, strategy: 'clone', driver: 'plain-copy', roots },
  })
  expect(inCopy.stdout).toBe('refused\noriginal\nmore\n')
  expect((await readdir(copy)).toSorted()).toEqual(['NEW.md', 'README.md', 'src'])
  expect(await readdir(join(copy, 'src'))).toEqual(['made'])
  expect((await readdir(ground.root)).toSorted()).toEqual(['README.md', 'src'])
  expect(await readFile(join(ground.root, 'README.md'), 'utf8')).toBe('original\n')
})

test('hidden files cannot be read, whatever reads them, and their folders look empty', async () => {
  await using ground = await makeGround()
  await mkdir(join(ground.root, 'deep', 'secrets'), { recursive: true })
  for (const path of ['.env', 'deep/.env.local', 'deep/secrets/key', 'kept.txt']) {
    await writeFile(join(ground.root, path), `content of ${path}\n`)
  }
  const outcome = await runIn(
    ground,
    host,
    'cat .env deep/.env.local kept.txt; ls -A deep/secrets; grep -rs content . | sort',
    {
      hide: ['.env*', 'deep/secrets/'],
    },
  )
  expect(outcome.stdout).toBe('content of kept.txt\n./kept.txt:content of kept.txt\n')
})

test('a file that is to be hidden is hidden by its other names too, and by a name with brackets', async () => {
  await using ground = await makeGround()
  for (const path of ['.env', '[id].key', 'i.key', 'kept.txt']) {
    await writeFile(join(ground.root, path), `content of ${path}\n`)
  }
  await link(join(ground.root, '.env'), join(ground.root, 'copy.txt'))
  const outcome = await runIn(ground, host, 'cat .env copy.txt "[id].key" i.key kept.txt', {
    hide: ['.env', '[id].key'],
  })
  expect(outcome.stdout).toBe('content of kept.txt\n')
  expect((await runIn(ground, host, 'cat copy.txt')).stdout).toBe('content of .env\n')
})

test('a hidden root is not there and a read-only root cannot be written', async () => {
  await using ground = await makeGround()
  const request = ground.request(['true'])
  const [first] = request.workspace.roots
  if (first === undefined) throw new Error('no root')
  const withAccess = (access: 'ro' | 'hidden') => ({
    cwd: '/tmp',
    workspace: { ...request.workspace, roots: [{ ...first, access }] },
  })
  const look = `ls ${ground.root} 2>&1; touch ${ground.root}/new 2>/dev/null || echo refused`
  expect((await runIn(ground, host, look, withAccess('ro'))).stdout).toBe('README.md\nrefused\n')
  expect((await runIn(ground, host, look, withAccess('hidden'))).stdout).toMatch(
    /No such file or directory\nrefused\n/,
  )
})
