/**
 * Attacks that need a host of their own, a whole dispatch or no sandbox at all, and the test that makes them. A
 * comment in the source names an attack by such an id, or by that of a case of the suite: `(escape: id)`.
 */
export type Proof = {
  readonly ids: readonly string[]
  readonly attack: string
  /** The folder in which the test is. */
  readonly folder: string
  /** Words of the test's name. */
  readonly test: string
}

export const proof = (ids: string, attack: string, folder: string, test: string): Proof => ({
  ids: ids.split(' '),
  attack,
  folder,
  test,
})
