import type { Page } from '@playwright/test'

/**
 * Texts whose colour is too close to what lies behind them (WCAG AA), as `ratio text`, code in the viewer's shadow
 * roots included. What is disabled, hidden or printed by a program is left out: the first may be faint, the second
 * is not there, the third has the colours that the program gave it.
 */
export const faintTexts = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
  const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true })
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1)
    pen.fillStyle = colour
    pen.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
  }
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1)
  const parentOf = (at) => at.assignedSlot ?? at.parentElement ?? at.getRootNode().host ?? null
  const behind = (element) => {
    const layers = []
    for (let at = element; at !== null; at = parentOf(at)) layers.unshift(rgba(getComputedStyle(at).backgroundColor))
    return layers.reduce((below, top) => over(top, below), [255, 255, 255, 1])
  }
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4)
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const found = new Set()
  const textsIn = function* (root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      if (node.nodeType === Node.TEXT_NODE) yield node
      else if (node.shadowRoot !== null) yield* textsIn(node.shadowRoot)
    }
  }
  for (const node of textsIn(document.body)) {
    const element = node.parentElement
    const text = node.textContent.trim()
    if (element === null || text === '' || element.closest('.xterm, script, style, kbd, [disabled], [aria-disabled=true], .sr-only') !== null) continue
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue
    let opacity = 1
    for (let at = element; at !== null; at = parentOf(at)) opacity *= Number(getComputedStyle(at).opacity)
    if (opacity < 0.75) continue
    const below = behind(element)
    const ink = rgba(getComputedStyle(element).color)
    const seen = over([...ink.slice(0, 3), ink[3] * opacity], below)
    const [high, low] = [light(seen), light(below)].sort((a, b) => b - a)
    const ratio = (high + 0.05) / (low + 0.05)
    const style = getComputedStyle(element)
    const isLarge = parseFloat(style.fontSize) >= 24
    if (ratio < (isLarge ? 3 : 4.5) - 0.05) found.add(ratio.toFixed(2) + ' ' + text.slice(0, 40))
  }
  return [...found]
})()`)

/** Controls that a screen reader could not call anything. */
export const namelessControls = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
  const nameOf = (control) => [
    control.getAttribute('aria-label'),
    ...(control.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent),
    ...[...(control.labels ?? [])].map((label) => label.textContent),
    control.textContent,
  ].filter(Boolean).join('').trim()
  const controls = 'button, a[href], input, textarea, select, [role=tab], [role=option], [role=radio], [role=checkbox]'
  return [...document.querySelectorAll(controls)]
    .filter((control) => control.checkVisibility() && !control.classList.contains('xterm-helper-textarea') && nameOf(control) === '')
    .map((control) => control.outerHTML.slice(0, 120))
})()`)

/** Buttons of a review that do not lie wholly within its pane, as `name left–right of pane`. */
export const cutButtons = (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`(() => {
  const pane = document.querySelector('main').getBoundingClientRect()
  return [...document.querySelectorAll('[data-review-bar] button, [data-file-header] button, [data-hunk] button')]
    .filter((button) => button.checkVisibility())
    .map((button) => ({ button, box: button.getBoundingClientRect() }))
    .filter(({ box }) => box.left < pane.left || box.right > Math.min(pane.right, innerWidth) || box.width < 16)
    .map(({ button, box }) => \`\${button.ariaLabel ?? button.textContent} \${box.left}–\${box.right} of \${pane.right}\`)
})()`)

/** How many pieces of code the highlighter has coloured so far. */
export const colouredWords = (page: Page): Promise<number> =>
  page.evaluate<number>(`[...document.querySelectorAll('diffs-container')]
    .reduce((sum, { shadowRoot }) => sum + (shadowRoot?.querySelectorAll('[data-line] span[style*="--diffs"]').length ?? 0), 0)`)
