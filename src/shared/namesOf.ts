/** The first few names and how many there are besides. `beyond`: of those that are not even in the list. */
export function namesOf(names: readonly string[], most: number, beyond = 0): string {
  const more = Math.max(0, names.length - most) + beyond
  return names.slice(0, most).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
