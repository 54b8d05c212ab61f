import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../src/engine/base/process.ts'
import type { EscapeCase } from '../case.ts'
import { fileTree, isSameTree, pathsBetween } from '../fileTree.ts'
import { asUser, landOurWay } from '../landing.ts'
import { exists, landing } from '../landingCase.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { clockSlackMs } from '../../../src/engine/changeset/capture/scan.ts'
import type { World } from '../world.ts'

type Tree = Readonly<Record<string, string>>

type Rebuilt = {
  readonly id: string
  readonly attack: string
  readonly guard: string
  /** What the user has, what the agent makes of it, and what there is for the agent afterwards. */
  readonly before: (world: World) => string
  readonly probe: string
  readonly after: Tree
}

/** As tools do that know files and not what was taken away: onto what is there. */
const copyOnto = async ({ ground }: World) =>
  void (await run('cp', ['-r', '--', `${ground.upper}/.`, ground.root]))

/**
 * What lands must be what the agent saw at its end, byte for byte and name for name, and whatever changes among the
 * user's files must have been shown to the reviewer before.
 */
const rebuilt = ({ id, attack, guard, before, probe, after }: Rebuilt): EscapeCase => ({
  id,
  group: 'Changesets',
  attack,
  guard,
  claim: 'blocked',
  stage: async (world) => {
    const { root } = world.ground
    await asUser(world, before(world))
    // A file as young as the dispatch may have changed since, and would be held back for that.
    await sleep(2 * clockSlackMs)
    const { workspace } = world.ground.request(['true'])
    const old = await fileTree(root)
    let isShown = true
    return {
      probe: `echo harmless >harmless; ${probe}`,
      control: 'sandbox',
      afterwards: async (guarded) => {
        if (!guarded) return copyOnto(world)
        const shown = new Set<string>()
        await landOurWay(world, workspace, async ({ files }) => {
          for (const { path, from_path } of files) shown.add(path).add(from_path ?? path)
        })
        // A folder is shown by what is in it.
        const changed = pathsBetween(old, await fileTree(root))
        isShown = changed.every((path) => [...shown].some((name) => `${name}/`.startsWith(`${path}/`)))
      },
      tried: async () => !isSameTree(old, await fileTree(root)),
      escaped: async () => {
        const wanted = { 'README.md': 'original\n', harmless: 'harmless\n', ...after }
        const isAsMade = isSameTree(await fileTree(root), wanted)
        return !isAsMade || !isShown || (await world.isCanaryTouched())
      },
    }
  },
})

/** As tools do that make a folder what the agent's is: whatever else is there goes. */
const mirror = (script: string) => async (world: World) => {
  await asUser(world, script)
  await copyOnto(world)
}

const works = 'what the user did\n'
const isWorkLost = async ({ ground }: World) => {
  const texts = Object.values(await fileTree(ground.root))
  return texts.filter((text) => text === works).length !== 2
}
const meanwhile = (paths: string) => (world: World) =>
  asUser(world, `for path in ${paths}; do printf '${works.trim()}\\n' >$path; done`)

/** A commit whose tree has one file under a name that git itself would never write, and one with two of a name. */
const commitNamed = (name: string, branch: string) =>
  `made=$(perl -e 'print "100644 $ARGV[0]\\0", pack("H*", $ARGV[1])' '${name}' $blob | git hash-object -t tree -w --stdin --literally)
  git update-ref refs/heads/${branch} $(git commit-tree -m ${branch} -p HEAD $made)`

const commitThroughLink = (outside: string) =>
  `link=$(printf '${outside}' | git hash-object -w --stdin); below=$(printf '100644 blob %s\\tthrough-link' $blob | git mktree)
  made=$(perl -e 'print "120000 d\\0", pack("H*", $ARGV[0]), "40000 d\\0", pack("H*", $ARGV[1])' $link $below | git hash-object -t tree -w --stdin --literally)
  git update-ref refs/heads/linked $(git commit-tree -m linked -p HEAD $made)`

/** As tools do that write each file of a commit under the name it has there: links first, as they come. */
const writeByName = `for commit in $(git for-each-ref --format='%(objectname)'); do
  git ls-tree -r -z $commit | perl -e '$/ = "\\0"; for (<STDIN>) { chomp; my ($head, $name) = split /\\t/, $_, 2; my ($mode, $kind, $blob) = split / /, $head;
    my $bytes = \`git cat-file blob $blob\`; my $at = "../checkout/$name"; $at = $name if $name =~ m{^/}; $at =~ s{/+[^/]+$}{} and mkdir $at if $name =~ m{/} && $name !~ m{^[./]};
    $at = $name =~ m{^/} ? $name : "../checkout/$name"; if ($mode eq "120000") { symlink $bytes, $at } else { open(my $f, ">", $at) and print $f $bytes } }'
done`

const hostileTree = landing({
  id: 'hostile-tree',
  group: 'Changesets',
  attack:
    'commits trees whose names lead out: with dots, absolute, with slashes, through a link of the same name',
  guard: 'commits with such a tree are not taken over',
  before: (world) =>
    asUser(
      world,
      'mkdir ../checkout; git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@b commit -qm first',
    ),
  probe: ({ outside }) =>
    [
      'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; blob=$(echo evil | git hash-object -w --stdin)',
    ]
      .concat(
        [`../../outside/by-dots`.slice(3), `${outside}/absolute`, 'a/../../outside/below'].map((name, at) =>
          commitNamed(name, `made${at}`),
        ),
        commitThroughLink(outside),
        commitNamed('plain', 'plain'),
      )
      .join('\n'),
  // What has come into the user's repository is written by name, by whatever tool he has.
  user: writeByName,
  escaped: async ({ outside }) => (await readdir(outside)).length !== 2,
  tried: async ({ ground }) => exists(join(ground.folder, 'checkout', 'plain')),
})

export const treeChanges: readonly EscapeCase[] = [
  rebuilt({
    id: 'recreated-folder',
    attack: 'deletes a folder and makes it again, for what it took away to stay unseen among what lands',
    guard: 'the changeset names what was taken away, and apply takes away what it names',
    before: () => 'mkdir -p folder/deep; echo old >folder/old; echo old >folder/deep/old',
    probe: 'rm -r folder; mkdir folder; echo new >folder/new',
    after: { folder: '/', 'folder/new': 'new\n' },
  }),
  rebuilt({
    id: 'swapped-kinds',
    attack:
      'swaps files, folders and links for one another, for a file to be written through a link of the user',
    guard: 'what is in the way is taken away first, and no link is followed',
    before: ({ canary }) =>
      `echo old >file; mkdir folder; echo old >folder/in; ln -s '${canary}' link; ln -s file other; mkdir last`,
    probe:
      'rm file; mkdir file; echo in >file/in; rm -r folder; echo now >folder; rm link; echo x >link; rm other; mkdir other; echo in >other/in; rmdir last; ln -s folder last',
    after: {
      file: '/',
      'file/in': 'in\n',
      folder: 'now\n',
      link: 'x\n',
      other: '/',
      'other/in': 'in\n',
      last: '-> folder',
    },
  }),
  rebuilt({
    id: 'renamed-folder',
    attack: 'renames a folder, for its files to stay under their old names too',
    guard: 'the changeset names both places, and they land together',
    before: () => 'mkdir -p folder/deep; echo one >folder/one; echo two >folder/deep/two',
    probe: 'mv folder other',
    after: { other: '/', 'other/one': 'one\n', 'other/deep': '/', 'other/deep/two': 'two\n' },
  }),
  landing({
    id: 'recreated-over-work',
    group: 'Changesets',
    attack: 'deletes and recreates a folder in which the user goes on working, for his work to be lost',
    guard: 'what is not as it was is a conflict, and nothing lands',
    isRefused: true,
    before: (world) => asUser(world, 'mkdir folder; echo old >folder/old'),
    probe: () => 'rm -r folder; mkdir folder; echo new >folder/old',
    between: meanwhile('folder/old folder/mine'),
    careless: mirror('rm -rf folder'),
    escaped: isWorkLost,
  }),
  landing({
    id: 'renamed-over-work',
    group: 'Changesets',
    attack: 'renames a folder in which the user goes on working, for his work to be lost',
    guard: 'what is not as it was is woven in or is a conflict; what came new stays',
    isRefused: true,
    before: (world) => asUser(world, 'mkdir folder; echo old >folder/old'),
    probe: () => 'mv folder other',
    between: meanwhile('folder/old folder/mine'),
    careless: mirror('rm -rf folder'),
    escaped: isWorkLost,
  }),
  hostileTree,
]
