import { expect, test } from 'vitest'
import { hasChangedScripts } from './classify.ts'

const changed = (before: string, after: string) => hasChangedScripts(Buffer.from(before), Buffer.from(after))

test('a package file that names something twice counts as one with other scripts, whichever a program takes', () => {
  const base = '{"name":"x","scripts":{"t":"a"}}'
  expect(changed(base, '{"name":"x","scripts":{"t":"evil"},"scripts":{"t":"a"}}')).toBe(true)
  expect(changed(base, '{"name":"x","scr\\u0069pts" : {"t":"evil"},"scripts":{"t":"a"}}')).toBe(true)
  expect(changed(base, '{"name":"x","scripts":{"t":"evil","t":"a"}}')).toBe(true)
  expect(
    changed(base, '{"name":"\\"y\\":{","a":[{"t":1},{"t":2}],"b":{"scripts":{}},"scripts":{"t":"a"}}'),
  ).toBe(false)
})
