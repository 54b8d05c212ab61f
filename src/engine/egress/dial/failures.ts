import { showTarget, type Target, type Wanted } from '../rules/names.ts'
import { denialText } from '../rules/policy.ts'

/** The policy says no. */
export class Denied extends Error {
  override readonly name = 'Denied'
  readonly what: string
  readonly why: string
  constructor(target: Wanted, why: string) {
    super(denialText(target, why))
    this.what = showTarget(target)
    this.why = why
  }
}

/** Allowed, and yet nobody answers. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
  readonly code: string
  constructor(target: Target, code: string) {
    super(`Orangery could not reach ${showTarget(target)}: ${code}`)
    this.code = code
  }
}
