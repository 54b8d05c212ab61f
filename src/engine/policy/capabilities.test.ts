import { describe, expect, test } from 'vitest'
import { boundaryLevels } from '../../shared/boundary.ts'
import { capabilitiesOf, filesAt } from './capabilities.ts'
import { defaultConfig } from './config/merge.ts'

const anything = { allow: null, deny: [] }

describe('the capabilities of a boundary', () => {
  test.each([
    ['readonly', 'none', 'none'],
    ['readwrite', 'workspace', 'none'],
    ['network', 'workspace', 'named'],
    ['full', 'workspace', 'open'],
  ] as const)('%s writes %s and reaches %s', (level, write, reach) => {
    expect(capabilitiesOf(level, defaultConfig())).toEqual({
      level,
      files: { write, writable: [], hide: [] },
      network: { reach, hosts: [], deniedHosts: [] },
      tools: anything,
      commands: anything,
    })
    expect(filesAt(level)).toBe(write === 'none' ? 'ro' : 'rw')
  })

  test('are what the config says for that level, and for no other', () => {
    const config = defaultConfig()
    config.sandboxLevels.readonly = {
      hosts: ['docs.test'],
      deniedHosts: [],
      writable: ['NOTES.md'],
      hide: ['.env*'],
      tools: { allow: ['Read', 'Grep'], deny: [] },
      commands: { allow: null, deny: ['git push'] },
    }
    expect(capabilitiesOf('readonly', config)).toMatchObject({
      files: { writable: ['NOTES.md'], hide: ['.env*'] },
      network: { reach: 'named', hosts: ['docs.test'] },
      tools: { allow: ['Read', 'Grep'] },
      commands: { deny: ['git push'] },
    })
    expect(capabilitiesOf('readwrite', config)).toMatchObject({
      files: { writable: [], hide: [] },
      network: { reach: 'none', hosts: [] },
      tools: anything,
    })
  })

  test('where a level names what is writable only that is, and above it too until another list says more', () => {
    const config = defaultConfig()
    const name = (level: 'readwrite' | 'full', writable: string[]) => {
      config.sandboxLevels[level] = { ...config.sandboxLevels[level], writable }
    }
    const files = () =>
      boundaryLevels.map((level) => {
        const { write, writable } = capabilitiesOf(level, config).files
        return [write, ...writable].join(' ')
      })
    name('readwrite', ['src', 'Makefile'])
    expect(files()).toEqual(['none', 'listed src Makefile', 'listed src Makefile', 'listed src Makefile'])
    name('full', ['.'])
    expect(files()).toEqual(['none', 'listed src Makefile', 'listed src Makefile', 'workspace'])
    name('readwrite', [])
    expect(files()).toEqual(['none', 'listed', 'listed', 'workspace'])
  })

  test('a host denied at one level is denied at every one', () => {
    const config = defaultConfig()
    config.sandboxLevels.readwrite = { ...config.sandboxLevels.readwrite, deniedHosts: ['evil.test'] }
    const denied = boundaryLevels.map((level) => capabilitiesOf(level, config).network.deniedHosts.length)
    expect(denied).toEqual([1, 1, 1, 1])
  })

  test('what a level hides and denies every narrower one does, too, whatever that one allows', () => {
    const config = defaultConfig()
    const { readonly, network } = config.sandboxLevels
    config.sandboxLevels.readonly = { ...readonly, tools: { allow: ['Read', 'Bash'], deny: [] } }
    config.sandboxLevels.network = {
      ...network,
      hide: ['.env'],
      tools: { allow: ['Read', 'Edit'], deny: ['Web'] },
      commands: { allow: null, deny: ['git push'] },
    }
    const seen = boundaryLevels.map((level) => {
      const { files, tools, commands } = capabilitiesOf(level, config)
      return [files.hide, tools, commands.deny]
    })
    expect(seen).toEqual([
      [['.env'], { allow: ['Read'], deny: ['Web'] }, ['git push']],
      [['.env'], { allow: ['Read', 'Edit'], deny: ['Web'] }, ['git push']],
      [['.env'], { allow: ['Read', 'Edit'], deny: ['Web'] }, ['git push']],
      [[], anything, []],
    ])
  })

  test('full with a list of hosts is held to it', () => {
    const config = defaultConfig()
    config.sandboxLevels.full = { ...config.sandboxLevels.full, hosts: ['a.test'] }
    expect(capabilitiesOf('full', config).network).toMatchObject({ reach: 'named', hosts: ['a.test'] })
  })
})
