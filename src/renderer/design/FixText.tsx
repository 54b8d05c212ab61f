import { Plain } from '../text/Plain.tsx'

/** What helps: a sentence with `commands` in it, or one command by itself. */
export function FixText({ text }: { text: string }) {
  // A sentence ends like one; whatever does not is there to be typed.
  const parts = /[.!?]$/.test(text.trim()) ? text.split(/(`[^`]+`)/) : [`\`${text}\``]
  let at = 0
  return parts.map((part) => {
    const key = (at += part.length)
    return part.startsWith('`') && part.endsWith('`') && part.length > 2 ? (
      <code key={key} className="rounded-sm bg-hover px-1 py-px font-mono text-[0.92em] text-ink">
        <Plain>{part.slice(1, -1)}</Plain>
      </code>
    ) : (
      <Plain key={key}>{part}</Plain>
    )
  })
}
