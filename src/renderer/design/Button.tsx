import type { ButtonHTMLAttributes, ReactNode, Ref } from 'react'
import { Tip } from './Tip.tsx'

type Look = 'primary' | 'outline' | 'quiet' | 'danger' | 'dangerQuiet'
type Size = 'small' | 'medium' | 'large'

const looks: Readonly<Record<Look, string>> = {
  primary:
    'bg-accent text-accent-on font-medium shadow-[inset_0_1px_0_oklch(1_0_0/28%),0_1px_2px_oklch(0.3_0.1_50/22%)] hover:bg-accent-hover disabled:bg-hover disabled:text-ink-off disabled:shadow-none',
  outline:
    'bg-raised text-ink shadow-[0_0_0_1px_var(--line-strong),0_1px_1px_oklch(0_0_0/4%)] hover:bg-sunken disabled:bg-transparent disabled:text-ink-off disabled:shadow-[0_0_0_1px_var(--line)]',
  quiet: 'text-ink-soft hover:bg-hover hover:text-ink disabled:bg-transparent disabled:text-ink-off',
  danger:
    'bg-bad-solid text-[oklch(1_0_0)] font-medium hover:brightness-95 disabled:bg-hover disabled:text-ink-off',
  dangerQuiet: 'text-bad hover:bg-bad-wash disabled:bg-transparent disabled:text-ink-off',
}
const sizes: Readonly<Record<Size, string>> = {
  small: 'h-6 px-2 gap-1 text-small rounded-md',
  medium: 'h-7 px-2.5 gap-1.5 text-base rounded-md',
  large: 'h-9 px-4 gap-2 text-base rounded-lg',
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: Look
  size?: Size
  icon?: ReactNode
  /** Says why it is disabled, or what it does beyond its label. */
  tip?: ReactNode
  keys?: string
  ref?: Ref<HTMLButtonElement>
}

export function Button({
  look = 'outline',
  size = 'medium',
  icon,
  tip,
  keys,
  className = '',
  children,
  ...rest
}: ButtonProps) {
  const button = (
    <button
      type="button"
      // A disabled button takes no pointer events, and then nobody could read why it is disabled.
      aria-disabled={rest.disabled}
      {...rest}
      className={`inline-flex shrink-0 items-center justify-center whitespace-nowrap transition-colors duration-100 ${sizes[size]} ${looks[look]} ${children === undefined ? 'aspect-square px-0!' : ''} ${className}`}
    >
      {icon}
      {children}
    </button>
  )
  return tip === undefined ? (
    button
  ) : (
    <Tip text={tip} {...(keys === undefined ? {} : { keys })}>
      {rest.disabled ? <span className="inline-flex">{button}</span> : button}
    </Tip>
  )
}
