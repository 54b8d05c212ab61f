import { egress } from './egressProofs.ts'
import { policy } from './policyProofs.ts'
import { proof, type Proof } from './proof.ts'

const sandbox = [
  proof(
    'outlive-any-kill',
    'outlives a kill of any process of the chain around it: holder, bubblewrap, who takes orders',
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
    'loaded-at-the-gate',
    'speaks for the gate, by a library that a variable passed to it names (LD_PRELOAD), and answers what is probed',
    'src/engine/sandbox',
    'of what the agent is given the loader sees nothing before the agent is',
  ),
  proof(
    'swapped-root',
    'puts a link in the place of a folder, for a dispatch that begins there to be shown what the link leads to',
    'src/engine',
    'below a folder whose real files an agent writes nothing else starts',
  ),
  proof(
    'listed-folder',
    'reads below /etc, run by root, in a folder that others may list and not enter',
    'src/engine/sandbox',
    'a folder they may list and not enter',
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
    'grant-link-to-keys',
    'has its card grant a link that came to lead to keys and tokens',
    'src/engine/sandbox',
    'a grant that leads to keys and tokens by another name fails preflight',
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
    'change-pairs',
    'deletes and recreates a folder, swaps files, folders and links, renames a folder, against whatever the user did meanwhile',
    'test/changeset',
    'every pair of incoming and local change is in the document and does what it says',
  ),
  proof(
    'hostile-tree-names',
    'commits trees whose names lead out: `..`, `.git`, absolute ones and such with slashes',
    'test/changeset',
    'a commit whose tree leads out by its names',
  ),
  proof(
    'apply-parent-swap-at-length',
    'swaps a folder for a link while a changeset of many files is applied and taken back',
    'test/changeset',
    'leads nothing out of the root',
  ),
  proof(
    'apply-fault',
    'kill -9, a full disk or a lost permission ahead of every single operation of an apply',
    'test/changeset',
    'leaves all old or all new',
  ),
  proof(
    'same-apply-twice',
    'has one changeset applied twice at once, as by two who reviewed it',
    'test/changeset',
    'of two applies at once one lands',
  ),
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
