import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { realpathSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { OrangeryError } from '../../../shared/errors.ts'
import { minimalEnv } from '../../base/process.ts'
import type { OnDeniedWrite } from '../../base/sandbox.ts'
import { keepTail, onLines } from '../lines.ts'
import type { SandboxPlan } from '../plan/plan.ts'
import { buildFilter } from '../seccomp/filter.ts'
import { syscallNumber } from '../seccomp/syscalls.ts'
import { watchRules, watchTable } from '../seccomp/watched.ts'

/** One that tries every path there is must not fill the log. */
export const mostDenied = 100

/**
 * Runs inside, where the gate will: asks the kernel to tell a listener of each call that would write, says which
 * descriptor the listener is, waits until it was taken, and becomes the gate. Where the kernel refuses, nothing is
 * watched.
 *
 * Arguments: prctl seccomp filter gate…
 */
const installScript = String.raw`
$^F = 255;
my ($prctl, $seccomp, $hex) = splice @ARGV, 0, 3;
my $code = pack 'H*', $hex;
my $program = pack 'S x6 P', length($code) / 8, $code;
syscall($prctl + 0, 38, 1, 0, 0, 0);
my $listener = syscall($seccomp + 0, 1, 8 | 32, $program);
$listener = syscall($seccomp + 0, 1, 8, $program) if $listener < 0;
open my $say, '>&=', 8 or exit 70;
open my $hear, '<&=', 7 or exit 70;
syswrite $say, "watch $listener\n";
if ($listener >= 0) { sysread($hear, my $go, 3) == 3 or exit 70 }
exec { $ARGV[0] } @ARGV or exit 70;
`

/**
 * Runs outside, with the holder's rights over what is inside: takes the listener, and at each call looks whether the
 * mount is going to refuse it, below a root. The kernel goes on with the call in any case and decides by itself, so that
 * nothing hangs on what was seen here. It stands in the sandbox's root, in which names lead where they lead the agent, and
 * loads nothing from there: no module after the first line.
 *
 * Arguments: gate listener ioctl faccessat most calls root…
 */
const watchScript = String.raw`
my ($gate, $theirs, $ioctl, $faccessat, $most, $table, @roots) = @ARGV;
$| = 1;
my %calls = map { my ($number, @rest) = split /:/; ($number => [@rest]) } split /,/, $table;
my $process = syscall(434, $gate + 0, 0);
my $listener = syscall(438, $process, $theirs + 0, 0);
die "cannot take the listener: $!\n" if $listener < 0;
chdir '/proc' and chroot "$gate/root" or die "cannot look into the sandbox: $!\n";
syscall($ioctl + 0, $listener, 0x40082104, 1);
# A root is known by its mount: the agent moves the folders above it, and the root with them. (escape: narrow-moved-root)
sub mountOf { open my $info, '<', 'self/fdinfo/' . fileno $_[0] or return ''; join('', <$info>) =~ /^mnt_id:\s*(\d+)/m ? $1 : '' }
my %mine;
for my $root (@roots) {
  sysopen my $handle, $root, 010000000 or next;
  $mine{mountOf($handle)} = [$root eq '/' ? '' : $root, $handle];
}
print "watching\n";
my %told;
sub look {
  my ($pid, $what, @given) = @_;
  my ($does, $dir, $path, $flags) = @$what;
  open my $memory, '<', "$pid/mem" or return;
  sysseek $memory, $given[$path], 0 or return;
  sysread $memory, my $bytes, 4096 or return;
  my $name = unpack 'Z*', $bytes;
  my $folder = $dir < 0 ? -100 : unpack 'l', pack 'L', $given[$dir] & 0xffffffff;
  my $full = $name =~ m{^/} ? $name : $folder == -100 ? "$pid/cwd/$name" : "$pid/fd/$folder/$name";
  my ($parent, $leaf) = $full =~ m{^(.*/)([^/]+)/*$}s or return;
  my ($spot, $rest) = ($parent, "/$leaf");
  if ($does eq 'open') {
    my $mode = $given[$flags];
    if (stat $full) {
      return unless $mode & 01003;
      return if -d _ && !($mode & 020000000);
      ($spot, $rest) = ($full, '');
    } else { return unless $mode & 0100 }
  } elsif ($does eq 'change' && !($flags >= 0 && $given[$flags] & 0x100)) {
    stat $full or return;
    ($spot, $rest) = ($full, '');
  } elsif ($does ne 'move') {
    my $isThere = lstat $full;
    return if $does eq 'make' ? $isThere : !$isThere;
  }
  return unless syscall($faccessat + 0, -100, $spot, 2) < 0 && $! == 30;
  sysopen my $handle, $spot, 010000000 or return;
  my ($root, $top) = @{$mine{mountOf($handle)} || return};
  my ($at, $now) = map { readlink('self/fd/' . fileno $_) } $handle, $top;
  # Told by the name the root was given.
  my $found = ($now ne '/' && index("$at/", "$now/") == 0 ? $root . substr($at, length $now) : $at) . $rest;
  return if $told{$found}++;
  print 'denied ', unpack('H*', $found), "\n";
  print "enough\n" if keys %told == $most;
}
my $both = '';
vec($both, 0, 1) = 1;
vec($both, $listener, 1) = 1;
for (;;) {
  my $ready = $both;
  next if select($ready, undef, undef, undef) < 0;
  # Whoever started us is gone.
  last if vec $ready, 0, 1;
  my $call = "\0" x 80;
  if (syscall($ioctl + 0, $listener, 0xc0502100, $call) < 0) {
    # The caller was interrupted or killed meanwhile; anything else says that nobody is left.
    vec($both, $listener, 1) = 0 unless $! == 4 || $! == 2;
    next;
  }
  my ($id, $pid, $flags, $number, $architecture, $pointer, @given) = unpack 'Q L L l L Q Q6', $call;
  look($pid, $calls{$number}, @given) if $calls{$number} && keys %told < $most;
  my $answer = pack 'Q q l L', $id, 0, 0, 1;
  syscall($ioctl + 0, $listener, 0xc0182101, $answer);
}
`

/** What goes before the gate, where writes are watched. */
export function watchedFrom(plan: SandboxPlan): readonly string[] {
  const { watches: architecture } = plan
  const { perl } = plan.tools
  if (architecture === null || perl === null) return []
  const filter = buildFilter(watchRules, architecture, 'allow').toString('hex')
  const numbers = (['prctl', 'seccomp'] as const).map((call) => String(syscallNumber(call, architecture)))
  return [perl, '-e', installScript, ...numbers, filter]
}

/** Sees the writes that the read-only workspace denies, from outside and from the kernel. */
export class WriteWatch {
  readonly #plan: SandboxPlan
  readonly #told: (string | null)[] = []
  #listener: OnDeniedWrite | null = null
  #child: ChildProcessByStdio<Writable, Readable, Readable> | null = null

  constructor(plan: SandboxPlan) {
    this.#plan = plan
  }

  /** Resolves when somebody listens: from here on the calls inside wait for him. `lost`: he ended by himself. */
  start(holder: number, gate: number, descriptor: number, lost: () => void): Promise<void> {
    const { tools, request, confinement, watches: architecture } = this.#plan
    if (architecture === null) return Promise.resolve()
    const numberOf = (call: 'ioctl' | 'faccessat') => String(syscallNumber(call, architecture))
    const real = (path: string) => (confinement === 'holder' ? realpathSync(path) : path)
    const child = spawn(
      tools.nsenter ?? 'nsenter',
      [
        `--user=/proc/${holder}/ns/user`,
        '--preserve-credentials',
        '--',
        tools.perl ?? 'perl',
        '-e',
        watchScript,
        String(gate),
        String(descriptor),
        numberOf('ioctl'),
        numberOf('faccessat'),
        String(mostDenied),
        watchTable(architecture),
        ...request.workspace.roots.filter(({ access }) => access === 'rw').map(({ target }) => real(target)),
      ],
      { env: minimalEnv, stdio: ['pipe', 'pipe', 'pipe'] },
    )
    this.#child = child
    const said = keepTail(child.stderr)
    child.stdin.on('error', () => {})
    return new Promise((resolve, reject) => {
      let isWatching = false
      const failed = (why: string) => {
        if (this.#child !== child) return
        this.#child = null
        if (isWatching) lost()
        else reject(new OrangeryError('sandbox.watch_failed', `denied writes cannot be watched: ${why}`))
      }
      child.once('error', (error) => failed(error.message))
      child.once('exit', (code) => failed(said().split('\n').at(-1) || `it ended with ${code}`))
      onLines(child.stdout, (line) => {
        const [word, hex = ''] = line.split(' ')
        if (word === 'watching') {
          isWatching = true
          resolve()
        } else if (word === 'denied') this.#tell(Buffer.from(hex, 'hex').toString('utf8'))
        else if (word === 'enough') this.#tell(null)
      })
    })
  }

  #tell(path: string | null): void {
    if (this.#listener === null) this.#told.push(path)
    else this.#listener(path)
  }

  listen(listener: OnDeniedWrite): void {
    this.#listener = listener
    for (const path of this.#told.splice(0)) listener(path)
  }

  /** Only once nobody is left inside: without a listener its calls would fail. */
  stop(): void {
    const child = this.#child
    this.#child = null
    child?.kill('SIGKILL')
  }
}
