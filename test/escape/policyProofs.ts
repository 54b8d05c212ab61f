import { proof } from './proof.ts'

/** Attacks on what decides, which other tests make. */
export const policy = [
  proof(
    'child-granted-host child-always-hosts',
    'has a child granted a host that its parent cannot reach',
    'src/engine/policy',
    'nobody grants a running child a host that its parent cannot reach',
  ),
  proof(
    'child-pinned-host',
    'has a child reach the host that its parent is led elsewhere for',
    'src/engine/policy',
    'a host its parent is led elsewhere for leads the child there too',
  ),
  proof(
    'child-root-dots child-root-link',
    'spawns a child whose root leads out of its own by dots or a link',
    'test/records',
    'a link or dots in a root lead no child out of what its parent has',
  ),
  proof(
    'child-root-hidden',
    'spawns a child that sees what is hidden from itself',
    'src/engine/dispatch',
    'never sees what is hidden from it',
  ),
  proof(
    'widen-through-child',
    'gets through a child what it would have to ask for itself',
    'src/engine/policy',
    'no child gets through a saved approval what its parent would have to ask for',
  ),
  proof(
    'taken-host-by-child',
    'reaches a host that was taken from it through a child started later',
    'src/engine/policy',
    'from its children, too: those that run, those that start later',
  ),
  proof(
    'undo-after-narrowing',
    'has a change that failed bring back what a person took meanwhile',
    'src/engine/policy',
    'a take that fails is undone, with what was denied because of it; one that was overtaken stays',
  ),
  proof(
    'host-for-files',
    'uses a yes to a host as one to its files',
    'src/engine/policy',
    'a yes to a host, saved or for the task, changes no files and opens no other host',
  ),
  proof(
    'one-host-for-all',
    'gets every host of the contract back by a yes to one',
    'src/engine/policy',
    'after a narrowing a yes to one host opens that host',
  ),
  proof(
    'host-below-maximum',
    'has a host opened below a maximum of network',
    'src/engine/policy',
    'below a maximum of network no host is opened',
  ),
  proof(
    'unnamed-host',
    'is given a host that the window does not name',
    'src/shared',
    'a request names every host that a yes would open',
  ),
  proof(
    'unnamed-level',
    'has a notification name a host and give a level',
    'src/main',
    'a notification with buttons names the level and every host',
  ),
  proof(
    'approval-collision',
    'asks for a host whose digest begins like that of a wider approval in its own repository',
    'src/engine/policy/config',
    'own approval does not count by a digest that begins like that of a saved one',
  ),
  proof(
    'held-file-keeps-network',
    'holds a file open, to keep its hosts when the maximum is lowered',
    'test/boundary',
    'a lowered maximum closes the network of an agent that holds a file open',
  ),
  proof(
    'printed-denial',
    'prints what looks like a denial, to be widened for it',
    'test/boundary',
    'what an agent prints is never taken for a denial',
  ),
  proof(
    'selected-level-zero',
    'has a repository of its own switch the sandbox off, or select level 0',
    'src/engine/policy/config',
    'file that is not trusted widens nothing at all',
  ),
  proof(
    'lifted-narrowing',
    'takes away, empties or shadows the file that narrows it, on the real files',
    'src/engine/policy/config',
    'what narrowed an agent on the real files at its start holds on',
  ),
  proof(
    'trust-after-write',
    'overwrites a config while it is saved, to be trusted with it',
    'src/engine/policy/config',
    'a file that an agent overwrites while an approval is saved or revoked is not trusted with it',
  ),
  proof(
    'config-fifo',
    'puts a fifo, a link, a folder or a huge file in the place of the config',
    'src/engine/policy/config',
    'in place of the config are refused without blocking',
  ),
  proof(
    'unreadable-config',
    'spoils the config, so that nothing can be taken from it',
    'test/boundary',
    'a running agent that is narrowed cannot write any more, be its config spoilt meanwhile',
  ),
  proof(
    'borrowed-trust',
    'claims to be a worktree of a repository that the user trusts',
    'src/engine/policy/config',
    'a checkout that only claims to be a worktree borrows no trust',
  ),
  proof(
    'restored-approval',
    'puts back an approval that the user took out of a trusted file',
    'src/engine/policy/config',
    'an approval that was taken out of a file by hand does not come back',
  ),
  proof(
    'config-behind-a-link',
    "changes the user's own config through what it is a link to",
    'src/engine/preflight',
    'a folder that holds our own config, by whichever link',
  ),
  proof(
    'config-by-changeset',
    "changes the user's own config by a changeset",
    'test/boundary',
    'paths the user protects, and our own config, need a decision of their own',
  ),
]
