/** `j`, `⌘ K`: one cap per word. */
export function Keys({ children }: { children: string }) {
  return (
    <span className="inline-flex gap-0.5">
      {children.split(' ').map((key) => (
        <kbd
          key={key}
          className="inline-grid h-4 min-w-4 place-items-center rounded-sm bg-hover px-1 font-sans text-micro text-ink-faint shadow-[inset_0_0_0_1px_var(--line)]"
        >
          {key}
        </kbd>
      ))}
    </span>
  )
}
