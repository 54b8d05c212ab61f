import { namePort, nameServer, proxyPort } from '../../base/sandbox.ts'

/**
 * Listens in the relay's place and becomes the relay when somebody comes, or an order does. Node takes forty megabytes
 * and a tenth of a second for a sandbox that mostly asks for nothing; this takes a few milliseconds, and whoever
 * asks first waits for the rest. Where there is no Perl the relay starts at once.
 */
const script = `
use Socket;
$^F = 255;
my ($proxy, $address, $port) = splice(@ARGV, 0, 3);
my @sockets = (['names udp', SOCK_DGRAM, $address, $port], ['names tcp', SOCK_STREAM, $address, $port], ['proxy', SOCK_STREAM, '127.0.0.1', $proxy]);
my ($bits, @open) = ('');
for (@sockets) {
  my ($key, $type, $host, $at) = @$_;
  socket(my $socket, PF_INET, $type, 0) or next;
  setsockopt($socket, SOL_SOCKET, SO_REUSEADDR, 1) if $type == SOCK_STREAM;
  bind($socket, pack_sockaddr_in($at, inet_aton($host))) or next;
  listen($socket, 4096) if $type == SOCK_STREAM;
  vec($bits, fileno($socket), 1) = 1;
  push @open, $socket;
  $ENV{ORANGERY_LISTENING} .= $key . '=' . fileno($socket) . ',';
}
syswrite(STDOUT, "waiting\\n");
vec($bits, 0, 1) = 1;
1 while select(my $ready = $bits, undef, undef, undef) < 1;
exec { $ARGV[0] } @ARGV;
`

export const sleeping = (command: readonly string[]): string[] => [
  'sh',
  '-c',
  'command -v perl >/dev/null && exec perl -e "$0" "$@"; shift 3; exec "$@"',
  script,
  String(proxyPort),
  nameServer,
  String(namePort),
  ...command,
]
