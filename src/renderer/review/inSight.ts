/** Less of it than this nobody has read. */
const leastPixels = 8

const rangesOf = (header: string): readonly [number, number, number, number] | null => {
  const found = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(header)
  if (found === null) return null
  const [from = 0, removed = 1, to = 0, added = 1] = found.slice(1).map((part) => Number(part ?? 1))
  return [from, from + removed, to, to + added]
}

/** Whether a line that the viewer has drawn belongs to the hunk with this header. */
export function isOfHunk(header: string, line: number, isRemoved: boolean): boolean {
  const ranges = rangesOf(header)
  if (ranges === null) return false
  const [oldFrom, oldEnd, newFrom, newEnd] = ranges
  return isRemoved ? line >= oldFrom && line < oldEnd : line >= newFrom && line < newEnd
}

/**
 * Whether the caret of a review stands where a person sees it: some of its hunk, or the file's name where none of its
 * hunks is shown. A key must not decide on what is scrolled off, or hidden by another view. (escape: answered-unseen)
 */
export function isInSight(pane: Element | null, hunkHeader: string | null): boolean {
  const name = pane?.querySelector('[data-file-header][data-current=true]')
  if (pane == null || name == null || !name.checkVisibility()) return false
  const room = pane.getBoundingClientRect()
  const shows = (element: Element, ceiling: number) => {
    const { top, bottom } = element.getBoundingClientRect()
    return Math.min(bottom, room.bottom) - Math.max(top, ceiling) >= leastPixels
  }
  if (hunkHeader === null) return shows(name, room.top)
  // The name stays at the top of the pane, over the lines.
  const ceiling = Math.max(room.top, name.getBoundingClientRect().bottom)
  const bar = pane.querySelector('[data-hunk][data-current=true]')
  if (bar !== null && shows(bar, ceiling)) return true
  const lines = name.closest('diffs-container')?.shadowRoot?.querySelectorAll<HTMLElement>('[data-line]')
  return [...(lines ?? [])].some(
    (line) =>
      isOfHunk(hunkHeader, Number(line.dataset['line']), line.dataset['lineType'] === 'change-deletion') &&
      shows(line, ceiling),
  )
}
