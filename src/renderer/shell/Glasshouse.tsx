/** The house on the empty page: three arched panes, the fruit behind the middle one. */
export function Glasshouse({ className = '' }: { className?: string }) {
  const arch = (x: number, width: number, top: number, base: number) => {
    const radius = width / 2
    return `M${x} ${base}V${top + radius}a${radius} ${radius} 0 0 1 ${width} 0V${base}z`
  }
  return (
    <svg viewBox="0 0 320 160" className={className} aria-hidden="true">
      <defs>
        <linearGradient id="pane-glass" x1="0" y1="0" x2="1" y2="1">
          <stop offset="0" stopColor="var(--raised)" />
          <stop offset="0.5" stopColor="var(--sunken)" />
          <stop offset="0.51" stopColor="var(--raised)" />
          <stop offset="1" stopColor="var(--sunken)" />
        </linearGradient>
      </defs>
      <g fill="url(#pane-glass)" stroke="var(--line-strong)" strokeWidth="2">
        <path d={arch(20, 78, 46, 148)} />
        <path d={arch(222, 78, 46, 148)} />
        <g strokeWidth="1.25" fill="none">
          <path d="M59 46v102M20 85h78M261 46v102M222 85h78" />
        </g>
      </g>
      <path
        d={arch(106, 108, 10, 148)}
        fill="url(#pane-glass)"
        stroke="var(--ink)"
        strokeWidth="3"
        strokeLinejoin="round"
      />
      <g stroke="var(--ink)" strokeWidth="1.75" fill="none" opacity="0.85">
        <path d="M160 12v52M107 64h106M160 64l-37-37M160 64l37-37" />
      </g>
      <circle cx="160" cy="104" r="31" fill="var(--accent)" />
      <path
        d="M160 76c1-11 9-18 21-19 0 12-8 20-21 19z"
        fill="var(--ink)"
        stroke="var(--pane)"
        strokeWidth="2.5"
        strokeLinejoin="round"
      />
      <ellipse cx="149" cy="92" rx="9" ry="5" transform="rotate(-35 149 92)" fill="#fff" opacity="0.5" />
      <path d="M6 149h308" stroke="var(--ink)" strokeWidth="3" strokeLinecap="round" />
    </svg>
  )
}
