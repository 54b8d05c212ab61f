import { policy } from './policyProofs.ts'
import { proof, type Proof } from './proof.ts'

const sandbox = [
  proof(
    'outlive-kill',
    'outlives a kill of the supervisor, the holder or bubblewrap',
    'test/sandbox',
    'leaves no process and no mount behind',
  ),
  proof(
    'beyond-limits',
    'ignores the time limit, fills the disk, takes memory and processes',
    'test/sandbox',
    'is told apart as memory',
  ),
  proof(
    'trash-everything',
    'trashes everything it sees, for the next run of the project',
    'test/sandbox',
    'leaves the next run of the project clean',
  ),
  proof(
    'system-socket system-pipe',
    'talks to a socket or pipe of the host below /opt or /usr, however it is called',
    'src/engine/sandbox',
    'takes nothing from inside',
  ),
  proof(
    'pipe-in-real-files',
    'writes to a pipe of the host among the real files',
    'src/engine/sandbox',
    'a pipe among the real files takes nothing from inside',
  ),
  proof(
    'narrow-hidden-descriptor',
    'keeps files writable by a mapping, a thread of its own or a message, when the boundary is narrowed',
    'test/sandbox',
    'keeps nothing writable',
  ),
  proof(
    'narrow-hopping-writer',
    'keeps files writable by going on in ever new processes, faster than they are looked at',
    'test/sandbox',
    'a writer that goes on in ever new processes is ended and named',
  ),
  proof(
    'narrow-moved-root',
    'moves the folders above its roots and swaps them, for another mount to be made read-only in their place',
    'test/sandbox',
    'a root that is read-only is so by every name the agent gave its folders',
  ),
  proof(
    'disk-moved-root',
    'moves the folders above its root and fills the disk with a file without a name',
    'test/sandbox',
    'the disk limit holds for files without a name in a root whose folders were moved',
  ),
  proof(
    'disk-mapped disk-long-path',
    'fills the disk with a file that has neither a name nor a descriptor, or lies deeper than any path reaches',
    'src/engine/sandbox',
    'holds for a file without a name, and one in a folder that was closed or lies too deep',
  ),
  proof(
    'disk-parked disk-undumpable disk-no-lister',
    'fills the disk with files nobody can look at: in messages, in a process closed to us, or where no counter can be started',
    'src/engine/sandbox',
    'is not its own, unless files of it cannot be looked at',
  ),
  proof(
    'disk-many-files',
    'makes files without end, for every look at the disk to take longer than what it writes meanwhile',
    'src/engine/sandbox',
    'nothing runs while a long look is taken at a disk that may be over its limit',
  ),
  proof(
    'closed-home',
    'closes its kept home, for the next run not to start',
    'src/engine/dispatch',
    'a kept home that an agent closed is open to the next one',
  ),
  proof(
    'shared-kept-home',
    'reaches another run of its card by a socket in the home that is kept',
    'test/sandbox',
    'two runs of a card that keeps its home do not share it',
  ),
  proof(
    'readonly-direct-root',
    'writes the real files although it may only read',
    'test/boundary',
    'an agent that may only read writes nothing with changeset %s',
  ),
  proof(
    'shared-git-direct',
    'reaches the hooks and refs of other checkouts from a linked worktree that it may write directly',
    'test/workspace',
    'with the real files of a linked worktree changes no byte of the repository',
  ),
  proof(
    'grant-data-dir grant-host-processes',
    "has its card grant Orangery's own folders, the whole home, or processes and the kernel of the host",
    'src/engine/sandbox',
    'shows our folders or the whole home',
  ),
  proof(
    'grant-above-keys',
    'has its card grant a folder of the home in which another has keys and tokens',
    'src/engine/sandbox',
    'a grant of a folder above keys and tokens fails preflight, unless they are granted by name',
  ),
  proof(
    'etc-replaced',
    'waits until a secret of /etc is replaced by a new file',
    'src/engine/sandbox',
    'a secret of /etc that is replaced while an agent of root runs stays hidden',
  ),
  proof(
    'closed-while-waiting',
    'reads a file of /etc, /opt or /usr/local that was closed to others while its sandbox stood ready',
    'src/engine/sandbox',
    'where a file was closed to others while somebody waited for a dispatch',
  ),
  proof(
    'mounted-secret',
    'reads a file that other users may not, on a mount inside /etc, /opt or /usr/local',
    'test/sandbox',
    'an agent of root reads nothing that other users may not, and all else',
  ),
  proof(
    'relay-preload',
    'has the relay load a library of its own, with the capabilities of the holder',
    'test/sandbox',
    'the relay sees nothing of what the agent sees',
  ),
  proof(
    'tell-flood',
    'fills its tables of descriptors to keep us busy',
    'test/sandbox',
    'an agent that fills its tables of descriptors keeps nobody waiting',
  ),
  proof(
    'stderr-swap',
    'has us write where it cannot, in the place of its stderr',
    'test/sandbox',
    'nothing is written to that it could not write to',
  ),
  proof(
    'reopened-descriptor',
    'opens what the caller gave it as output anew, to write elsewhere in it',
    'src/engine/sandbox',
    'there is no file of the host to be opened again',
  ),
  proof(
    'output-flood',
    'prints without end',
    'src/engine/dispatch',
    'a flood is counted but does not fill the disk',
  ),
]

const changesets = [
  proof(
    'recreated-folder swapped-kinds renamed-folder',
    'deletes and recreates a folder, swaps files, folders and links, renames a folder, against whatever the user did meanwhile',
    'test/changeset',
    'every pair of incoming and local change is in the document and does what it says',
  ),
  proof(
    'hostile-tree',
    'commits trees whose names lead out: `..`, `.git`, absolute ones and such with slashes',
    'test/changeset',
    'a commit whose tree leads out by its names',
  ),
  proof(
    'apply-parent-swap',
    'swaps a folder for a link while a changeset is applied',
    'test/changeset',
    'leads nothing out of the root',
  ),
  proof(
    'apply-fault',
    'kill -9, a full disk or a lost permission in the middle of an apply',
    'test/changeset',
    'leaves all old or all new',
  ),
  proof('two-applies', 'two applies at once', 'test/changeset', 'of two applies at once one lands'),
  proof(
    'link-through-a-swap',
    'has a link landed whose way leads out once a part of the changeset is left behind',
    'test/changeset',
    'a link that leaves the root because a swap on its way does not land stays out',
  ),
  proof(
    'link-against-the-review',
    'leaves a link that nobody can follow, so that nothing of the run could be reviewed',
    'src/engine/changeset',
    'and the rest is captured and lands',
  ),
  proof(
    'protected-name-behind-a-link',
    'changes a protected file by the name that a link leads to',
    'src/engine/changeset',
    'what a protected name of the user leads to through links does not land',
  ),
  proof(
    'nested-bare-repository',
    'leaves a bare repository under another name, whose configuration git would run',
    'test/changeset',
    'a bare repository under another name does not land',
  ),
  proof(
    'git-drivers',
    "chooses by attributes which of the user's filter, merge and diff programs run",
    'test/workspace',
    'no hook, filter or merge driver of the repository runs while something lands',
  ),
  proof(
    'worktree-gitdir',
    'comes as a checkout whose .git file names another repository of the user',
    'test/workspace',
    'a hostile checkout cannot make another repository of the user visible',
  ),
  proof(
    'borrowed-objects',
    'comes as a checkout that borrows objects of another repository of the user',
    'test/workspace',
    'of objects that a repository borrows, a sandbox gets what its own refs reach',
  ),
  proof(
    'git-after-the-end',
    'names a program in the configuration of its repository, for the git that takes its commits out after its end',
    'test/workspace',
    'does not run once the agent has ended, and its commits come all the same',
  ),
  proof(
    'linked-repository',
    'comes as a checkout that has links to another repository of the user in its .git',
    'src/engine/workspace',
    'gets no worktree of what its objects and branches lead to',
  ),
  proof(
    'layer-link',
    'puts a link in the place of a folder of its layer that we go into',
    'test/workspace',
    'a link in the place of its worktrees leads the host nowhere',
  ),
]

const egress = [
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

const reader = [
  proof(
    'printed-control-characters',
    'redraws the terminal of who reads its words',
    'src/engine/door',
    'a reason cannot redraw the terminal of who reads it',
  ),
  proof(
    'osc-52 osc-8',
    'reads the clipboard through the window, or hides an address behind a text',
    'e2e',
    'names, content and output written to deceive are shown as what they are',
  ),
  proof(
    'serve-rebinding',
    'points a name of a web site at this machine, to speak to the browser host',
    'src/serve',
    'a name that was pointed at this machine is not answered',
  ),
  proof(
    'serve-path-traversal',
    'asks the browser host for a file outside the built window',
    'src/serve',
    'nothing outside the built window can be read',
  ),
  proof(
    'runtime-dir-squatting',
    'makes the folder of our sockets first, as another user',
    'src/engine/base',
    'a folder that others may enter, or a link to one, is not taken',
  ),
]

export const proofs: readonly Proof[] = [...sandbox, ...changesets, ...egress, ...policy, ...reader]
