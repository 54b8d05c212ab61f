import { limitsSchema, outputsSchema, sandboxSpecSchema, type SandboxSpec } from './spec.ts'

/** Case, and what stands between words, is what people mix up most. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Whether one can be made of the other with so many letters put in, taken out or exchanged. */
function isWithin(most: number, a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > most) return false
  let before = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let row = 1; row <= a.length; row++) {
    const next = [row]
    for (let at = 1; at <= b.length; at++) {
      const kept = (before[at - 1] ?? 0) + (a[row - 1] === b[at - 1] ? 0 : 1)
      next.push(Math.min(kept, (before[at] ?? 0) + 1, (next[at - 1] ?? 0) + 1))
    }
    before = next
  }
  return (before[b.length] ?? 0) <= most
}

const longestName = 64

function meantBy(name: string, known: readonly string[]): string | undefined {
  if (name.length > longestName) return undefined
  const said = plain(name)
  return known.find((each) => isWithin(plain(each).length < 6 ? 1 : 2, said, plain(each)))
}

/**
 * Fields of a spec that nothing acts on and that are nearly those that are acted on: `readOnly` would hold nobody to
 * reading. They are kept like every other, so that whoever wrote them is told.
 */
export function misspeltFields(spec: SandboxSpec | null): string[] {
  const places = [
    { prefix: '', value: spec, shape: sandboxSpecSchema.shape },
    { prefix: 'outputs.', value: spec?.outputs, shape: outputsSchema.shape },
    { prefix: 'limits.', value: spec?.limits, shape: limitsSchema.shape },
  ]
  return places.flatMap(({ prefix, value, shape }) => {
    const known = Object.keys(shape)
    return Object.keys(value ?? {}).flatMap((name) => {
      const meant = known.includes(name) ? undefined : meantBy(name, known)
      return meant === undefined
        ? []
        : [`${prefix}${name} of the spec is not known, and nothing acts on it: is ${prefix}${meant} meant?`]
    })
  })
}
