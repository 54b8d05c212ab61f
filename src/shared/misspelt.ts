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

const sameName = (name: string, known: readonly string[]): string | undefined =>
  known.find((each) => plain(each) === plain(name))

/** Fields that are acted on, and where they belong; with what somebody gave there. */
export type Place = { readonly prefix: string; readonly value: unknown; readonly shape: object }

export type UnknownField = {
  readonly prefix: string
  readonly name: string
  readonly meant: string | undefined
}

/**
 * The fields that nothing acts on, each with the one that is meant, if one can tell: a name nearly like it in the same
 * place, or one of that name in another.
 */
export function unknownFields(places: readonly Place[]): UnknownField[] {
  return places.flatMap(({ prefix, value, shape }) => {
    const elsewhere = places.filter((place) => place.prefix !== prefix)
    const meantFor = (name: string) => {
      const here = meantBy(name, Object.keys(shape))
      if (here !== undefined) return `${prefix}${here}`
      const moved = elsewhere.map((place) => ({ ...place, known: sameName(name, Object.keys(place.shape)) }))
      return moved.flatMap((place) => (place.known === undefined ? [] : [`${place.prefix}${place.known}`]))[0]
    }
    return Object.entries(value ?? {})
      .filter(([name]) => !Object.hasOwn(shape, name))
      .flatMap(([name, given]) => {
        const own = { prefix, name, meant: meantFor(name) }
        if (own.meant !== undefined || typeof given !== 'object' || given === null) return [own]
        // A group that nobody knows: what is in it may be meant all the same.
        const inner = Object.keys(given).flatMap((each) => {
          const place = places.find(({ shape: known }) => sameName(each, Object.keys(known)) !== undefined)
          if (place === undefined) return []
          const meant = `${place.prefix}${sameName(each, Object.keys(place.shape))}`
          return [{ prefix: `${prefix}${name}.`, name: each, meant }]
        })
        return inner.length > 0 ? inner : [own]
      })
  })
}

/**
 * Fields of a spec that nothing acts on and that are nearly those that are acted on: `readOnly` would hold nobody to
 * reading, and a `timeout_s` beside the limits would stop nobody. They are kept like every other, so that whoever wrote
 * them is told.
 */
export function misspeltFields(spec: SandboxSpec | null): string[] {
  const places = [
    { prefix: '', value: spec, shape: sandboxSpecSchema.shape },
    { prefix: 'outputs.', value: spec?.outputs, shape: outputsSchema.shape },
    { prefix: 'limits.', value: spec?.limits, shape: limitsSchema.shape },
  ]
  return unknownFields(places).flatMap(({ prefix, name, meant }) =>
    meant === undefined
      ? []
      : [`${prefix}${name} of the spec is not known, and nothing acts on it: is ${meant} meant?`],
  )
}
