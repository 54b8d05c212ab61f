/** The sign of the house: an arched pane with the fruit behind it. Drawn as in resources/icons/tray.svg. */
export function Mark({ size = 18, className = '' }: { size?: number; className?: string }) {
  return (
    <svg viewBox="0 0 16 16" width={size} height={size} className={className} aria-hidden="true">
      <path
        d="M2.5 14.25V7a5.5 5.5 0 0 1 11 0v7.25z"
        className="fill-pane stroke-ink"
        strokeWidth="1.4"
        strokeLinejoin="round"
      />
      <circle cx="8" cy="9.25" r="3.25" className="fill-accent" />
    </svg>
  )
}
