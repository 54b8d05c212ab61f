import { proof } from './proof.ts'

/** Attacks on and past the broker, which other tests make. */
export const egress = [
  proof(
    'other-channel',
    "speaks through another sandbox's channel",
    'test/egress',
    "another sandbox's channel is out of reach",
  ),
  proof(
    'connection-flood',
    'opens ten thousand connections, half of them mute; reads slowly or never',
    'test/egress',
    'leave the broker serving',
  ),
  proof(
    'rebinding-behind-a-proxy',
    "lets a name lead elsewhere when the user's proxy looks it up after us",
    'src/engine/egress',
    'a name that leads elsewhere when the proxy looks it up is never handed to it',
  ),
  proof(
    'slow-name-flood',
    'opens connections to a name that is slow to resolve, more than may be open at one time',
    'src/engine/egress',
    'connections that still wait for their name count too',
  ),
  proof(
    'slow-hello',
    'says hello in so many small records that the broker is busy with them and nobody can narrow it',
    'src/engine/egress',
    'a hello in more records than anybody needs is refused',
  ),
  proof(
    'hidden-host',
    'reaches and tries so many hosts that the one it sends something to has no place in the record',
    'src/engine/egress',
    'a host that data went to is on record by name',
  ),
  proof(
    'domain-fronting',
    'names one host to the proxy and another in TLS or in the request',
    'src/engine/egress',
    'TLS for another name than the tunnel is for is cut',
  ),
  proof(
    'second-hello',
    'names another host in a second hello that the server asks for',
    'src/engine/egress',
    'passes with the name of the first, in whatever pieces, and with no other',
  ),
  proof(
    'request-smuggling',
    'hides a second request behind the first',
    'src/engine/egress',
    'a second request hidden behind the first never reaches the server',
  ),
  proof(
    'egress-spelling',
    'spells a host otherwise: case, dots at the end, other alphabets, digits',
    'src/engine/egress',
    'a normalised name is stable, plain and never matches more than itself',
  ),
  proof(
    'dotted-label',
    'asks for a name with a dot inside a label',
    'src/engine/egress',
    'names that spell something else are no names',
  ),
  proof(
    'own-interface',
    "lets a name resolve to one of this machine's own public addresses",
    'src/engine/egress',
    "this machine's own public addresses and their networks are refused",
  ),
  proof(
    'on-link-network',
    'lets a name resolve to a public address on a cable of this machine, which no router stands before',
    'src/engine/egress',
    'a public address on a cable of this machine is refused',
  ),
  proof(
    'secret-echo',
    'asks the server to send back the request, with the secret that was put in',
    'src/engine/egress',
    'a secret is put in for its own hosts only',
  ),
  proof(
    'secret-file-in-view',
    'reads the file of a secret that the broker holds, in a root, in /etc, by a link or a second name',
    'src/engine/sandbox',
    'a file with a secret is refused wherever the agent would see it',
  ),
  proof(
    'authority-reach',
    'uses a stolen key of the authority for another host',
    'src/engine/egress',
    "an authority's word counts for its own hosts only",
  ),
  proof(
    'hello-then-plain',
    'begins with a TLS hello, which a plain server reads over, and goes on in plain words',
    'src/engine/egress',
    'a server that answers a hello in anything but TLS is not heard',
  ),
  proof(
    'preset-leak',
    "has a tool that is asked for its registries talk to the proxy that the tool's own file names",
    'src/engine/egress/presets',
    'a tool that is asked reaches nobody but our listening proxy',
  ),
  proof(
    'token-in-a-registry-url',
    "reads a password or token out of the addresses that it is told of the user's registries",
    'src/engine/egress/presets',
    'no question, mark, name or password of a url is told, however it is written',
  ),
  proof(
    'preset-answer preset-metadata',
    "has a registry answer that its files lie in the user's own network or at a cloud's metadata service",
    'test/egress',
    'what a registry answers opens nothing of the own network, and what is beside every machine nobody opens',
  ),
  proof(
    'request-flood',
    'asks without end behind a request that is not answered, to fill the memory of the broker',
    'src/engine/egress',
    'requests that nobody answers yet are not read without end',
  ),
  proof(
    'lookup-at-the-end',
    'asks for names while it ends, to bring its supervisor down with an answer that nobody can take',
    'src/engine/egress',
    'an answer to a name that comes after the sandbox has ended brings nobody down',
  ),
  proof(
    'planted-config',
    'plants a configuration above the folder in which a tool is asked for its registries',
    'test/egress',
    'a tool is asked where nobody else can put a configuration above it',
  ),
]
