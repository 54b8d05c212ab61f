import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { writeProjectConfig, writeUserConfig } from './write.ts'

let home: string
let mine: string
let project: string
let file: string

beforeEach(async () => {
  home = await realpath(await mkdtemp(join(tmpdir(), 'orangery-write-')))
  mine = join(home, 'config.json')
  project = join(home, 'project')
  file = join(project, '.orangery.json')
  await mkdir(project)
  await writeFile(mine, '{"agentInactivityTimeout":77}')
})
afterEach(() => rm(home, { recursive: true, force: true }))

test('a project’s config is never written through a link that was put in its place (escape: config-fifo)', async () => {
  await symlink(mine, file)
  await expect(writeProjectConfig(file, '{"sandboxEnabled":false}')).rejects.toMatchObject({
    code: 'config.replaced',
  })
  expect(await readFile(mine, 'utf8')).toBe('{"agentInactivityTimeout":77}')
  // A race that the check loses ends at the link itself.
  await rm(file)
  const over = new AbortController()
  const swapping = (async () => {
    for (let turn = 0; !over.signal.aborted; turn++) {
      const next = join(project, 'next')
      await (turn % 2 === 0 ? symlink(mine, next) : writeFile(next, '{}'))
      await rename(next, file)
    }
  })()
  for (let turn = 0; turn < 60; turn++)
    await writeProjectConfig(file, '{"sandboxEnabled":false}').catch(() => {})
  over.abort()
  await swapping
  expect(await readFile(mine, 'utf8')).toBe('{"agentInactivityTimeout":77}')
})

test('a project’s config is not written where its folder, or one above, has become a link', async () => {
  const elsewhere = join(home, 'elsewhere')
  await mkdir(join(elsewhere, 'inner'), { recursive: true })
  await rename(project, join(home, 'before'))
  await symlink(elsewhere, project)
  for (const place of [project, join(project, 'inner')]) {
    await expect(writeProjectConfig(join(place, '.orangery.json'), '{}')).rejects.toThrow()
    await expect(readFile(join(place, '.orangery.json'), 'utf8')).rejects.toThrow('ENOENT')
  }
})

test('the user’s own config may be a link, and stays one', async () => {
  const link = join(home, 'link.json')
  await symlink(mine, link)
  await writeUserConfig(link, '{}')
  expect(await realpath(link)).toBe(mine)
  expect(await readFile(mine, 'utf8')).toBe('{}')
})

test('a project’s config that cannot be written is told by its own path', async () => {
  // The one beside it that it is written to first would have too long a name.
  const long = join(project, 'x'.repeat(255))
  await expect(writeProjectConfig(long, '{}')).rejects.toMatchObject({ code: 'ENAMETOOLONG', path: long })
})

test.each(['664', '666', '640', '600'])(
  'a config keeps its mode (%s) when it is written, whatever the umask',
  async (mode) => {
    await writeFile(file, '{}')
    for (const [path, write] of [
      [mine, writeUserConfig],
      [file, writeProjectConfig],
    ] as const) {
      await chmod(path, Number.parseInt(mode, 8))
      await write(path, '{"sandboxEnabled":true}')
      const facts = await stat(path)
      expect((facts.mode & 0o7777).toString(8), path).toBe(mode)
    }
  },
)

test.each(['project', 'user'])(
  'what a save to the %s that was killed left behind goes with the next one, and nothing else does',
  async (scope) => {
    const [folder, name] = scope === 'project' ? [project, '.orangery.json'] : [home, 'config.json']
    const old = new Date(Date.now() - 120_000)
    const left = `.${name}.0123456789ab.tmp`
    const others = [
      `.${name}.ba9876543210.tmp`,
      `.${name}.0123456789a.tmp`,
      `x${left}`,
      `${left}.bak`,
      '.b.json.0123456789ab.tmp',
    ]
    for (const each of [left, ...others]) await writeFile(join(folder, each), '{}')
    const link = `.${name}.aaaaaaaaaaaa.tmp`
    await symlink(mine, join(folder, link))
    // All but the first, which somebody may be writing, are old.
    for (const each of [left, ...others.slice(1)]) await utimes(join(folder, each), old, old)
    await (scope === 'project' ? writeProjectConfig(file, '{}') : writeUserConfig(mine, '{}'))
    const names = await readdir(folder)
    expect(names).not.toContain(left)
    expect(names).toEqual(expect.arrayContaining([...others, link, name]))
  },
)
