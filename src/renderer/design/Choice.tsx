import { Check } from 'lucide-react'
import { Checkbox, RadioGroup } from 'radix-ui'
import { useId, type ReactNode } from 'react'

export const fieldLook =
  'rounded-md bg-raised px-2.5 shadow-[0_0_0_1px_var(--line-strong)] outline-none focus:shadow-[0_0_0_1.5px_var(--accent-line)]'

/** A yes or no, with its words beside it. */
export function Choice({
  checked,
  onChange,
  children,
}: {
  checked: boolean
  onChange(checked: boolean): void
  children: ReactNode
}) {
  const id = useId()
  return (
    <div className="flex items-start gap-2.5">
      <Checkbox.Root
        id={id}
        checked={checked}
        onCheckedChange={(next) => onChange(next === true)}
        className="mt-0.5 grid size-4 shrink-0 place-items-center rounded-sm bg-raised text-accent-on shadow-[0_0_0_1px_var(--line-strong)] data-[state=checked]:bg-accent data-[state=checked]:shadow-none"
      >
        <Checkbox.Indicator>
          <Check size={12} strokeWidth={3} />
        </Checkbox.Indicator>
      </Checkbox.Root>
      <label htmlFor={id}>{children}</label>
    </div>
  )
}

/** One of several, each with what it means. */
export function OneOf<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string
  value: T
  options: readonly { value: T; label: string; detail: string }[]
  onChange(value: T): void
}) {
  const base = useId()
  return (
    <RadioGroup.Root
      aria-label={label}
      value={value}
      onValueChange={(next) => onChange(next as T)}
      className="space-y-2"
    >
      {options.map((option) => (
        <div key={option.value} className="flex items-start gap-2.5">
          <RadioGroup.Item
            id={`${base}-${option.value}`}
            value={option.value}
            aria-label={option.label}
            className="mt-0.5 grid size-4 shrink-0 place-items-center rounded-full bg-raised shadow-[0_0_0_1px_var(--line-strong)] data-[state=checked]:bg-accent data-[state=checked]:shadow-none"
          >
            <RadioGroup.Indicator className="size-1.5 rounded-full bg-accent-on" />
          </RadioGroup.Item>
          <label htmlFor={`${base}-${option.value}`}>
            {option.label} <span className="text-ink-faint">{option.detail}</span>
          </label>
        </div>
      ))}
    </RadioGroup.Root>
  )
}
