import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ended, Place } from '../../src/cli/testing/orangery.ts'

async function changesetOf(place: Place): Promise<string> {
  const { stdout } = await place.orangery('changeset', 'list', '--json')
  return (JSON.parse(stdout) as { id: string }[])[0]?.id ?? ''
}

test('what is approved of a running agent is what changeset diff has shown, and nothing it wrote since', async () => {
  using place = new Place('launcher')
  const file = join(place.folder, 'f')
  writeFileSync(file, 'base\n')
  const go = 'echo good > f; read line; echo evil > f; read line'
  const child = place.start({}, 'run', '-q', '--', 'sh', '-c', go)
  const running = ended(child)
  try {
    await expect.poll(() => changesetOf(place), { timeout: 20_000 }).not.toBe('')
    const id = await changesetOf(place)
    const approve = () => place.orangery('changeset', 'decide', id, '--path', 'f', 'approve')
    const diff = () => place.orangery('changeset', 'diff', id).then(({ stdout }) => stdout)
    expect(await approve()).toMatchObject({ code: 75, stderr: expect.stringContaining('still writes') })
    expect(await diff()).toContain('+good')
    expect(await approve()).toMatchObject({ code: 0, stderr: '' })
    child.stdin.write('go on\n')
    const shown = () => place.orangery('changeset', 'show', id, '--json').then(({ stdout }) => stdout)
    await expect.poll(shown, { timeout: 20_000 }).toContain('"reopened": true')
    expect(await approve()).toMatchObject({
      code: 75,
      stderr: expect.stringContaining('changed since you looked'),
    })
    child.stdin.end('end\n')
    await running
    expect((await approve()).code).toBe(75)
    expect((await place.orangery('changeset', 'apply', id)).code).toBe(77)
    expect(readFileSync(file, 'utf8')).toBe('base\n')
    expect(await diff()).toContain('+evil')
    expect((await approve()).code).toBe(0)
  } finally {
    child.stdin.destroy()
    child.kill()
    await running
  }
})

test('export --json is the document of --format json', async () => {
  using place = new Place('launcher')
  await place.orangery('run', '-q', '--', 'sh', '-c', 'echo new > f')
  const id = await changesetOf(place)
  const [json, format] = await Promise.all(
    [['--json'], ['--format', 'json']].map((how) => place.orangery('changeset', 'export', id, ...how)),
  )
  expect(json).toEqual(format)
  const document = JSON.parse(json?.stdout ?? '') as Record<string, unknown>
  expect(document).toMatchObject({ version: 1, changeset: { id }, diff: expect.stringContaining('+new') })
})

test('one commit of an agent for a program is what git apply takes, whatever bytes are in it, and text for a person', async () => {
  using place = new Place('launcher')
  const git = (...args: string[]) => execFileSync('git', ['-C', place.folder, ...args], { env: place.env })
  writeFileSync(join(place.home, '.gitconfig'), '[user]\nname = u\nemail = u@v\n')
  git('init', '-q', '-b', 'main')
  writeFileSync(join(place.folder, 'a.txt'), 'one\n')
  git('add', '-A')
  git('commit', '-q', '-m', 'first')
  await place.orangery('worktree', 'create', '--repo', '.', '--name', 'feature')
  const id = (await place.orangery('agent', 'start', '--worktree', 'feature')).stdout.trim()
  const work = String.raw`printf 'caf\351\n' > latin.txt; git add -A; git commit -qm Latin; git merge -q -s ours -m Merge $(git commit-tree -p HEAD~1 -m Other HEAD~1^{tree})`
  expect(await place.orangery('run', '-q', '--invocation', id, '--', 'sh', '-c', work)).toMatchObject({
    code: 0,
  })
  const { stdout } = await place.orangery('agent', 'show', id, '--json')
  const { commits } = JSON.parse(stdout) as { commits: { commit: string; subject: string }[] }
  const shown = async (subject: string, ...how: string[]) => {
    const commit = commits.find((each) => each.subject === subject)?.commit ?? ''
    const child = place.start({}, 'agent', 'show', id, '--commit', commit, ...how)
    const chunks: Buffer[] = []
    for await (const chunk of child.stdout) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks)
  }

  const patch = await shown('Latin')
  execFileSync('git', ['-C', place.folder, 'apply'], { env: place.env, input: patch })
  expect(readFileSync(join(place.folder, 'latin.txt'), 'latin1')).toBe('caf\xe9\n')
  expect((await shown('Merge')).toString('latin1')).toContain('+caf\xe9\n')
  const document = JSON.parse((await shown('Latin', '--json')).toString()) as Record<string, unknown>
  expect(document).toMatchObject({ text: patch.toString(), text_b64: patch.toString('base64') })
})
