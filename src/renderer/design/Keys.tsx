// The browser's word for it is old, and the only one there is without asking.
const isMac = navigator.platform.startsWith('Mac')
/** What sends a form from within a text field. */
export const sendKeys = isMac ? '⌘ ↵' : 'Ctrl ↵'

/** `j`, `⌘ K`: one cap per word. */
export function Keys({ children }: { children: string }) {
  return (
    <span className="inline-flex gap-0.5">
      {children.split(' ').map((key) => (
        <kbd
          key={key}
          className="inline-grid h-4 min-w-4 place-items-center rounded-sm border border-current/25 px-1 font-sans text-micro opacity-70"
        >
          {key}
        </kbd>
      ))}
    </span>
  )
}
