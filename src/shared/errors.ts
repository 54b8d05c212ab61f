import { refusalOfError } from './hostRefusal.ts'

/** What went wrong, told apart by who can mend it. The exit codes are those of the command line. */
export type ErrorKind =
  'usage' | 'input' | 'not_found' | 'preflight' | 'internal' | 'cannot_create' | 'busy' | 'refused'

export const exitCodes: Readonly<Record<ErrorKind, number>> = {
  usage: 64,
  input: 65,
  not_found: 66,
  preflight: 69,
  internal: 70,
  cannot_create: 73,
  busy: 75,
  refused: 77,
}

export type ErrorOptions = {
  readonly kind?: ErrorKind
  /** The way out, as an instruction: "Name only the outer folder." */
  readonly hint?: string
  readonly cause?: unknown
  readonly details?: unknown
}

/** The wire form of an error; every transport carries it unchanged. */
export type ErrorReport = {
  readonly code: string
  readonly kind: ErrorKind
  readonly message: string
  readonly hint?: string | undefined
  readonly details?: unknown
}

/**
 * An error a person will read. `code` never changes once released; `message` reads as `<what>: <why>`.
 * Anything thrown that is not one of these is our own fault and is shown as such.
 */
export class OrangeryError extends Error {
  override readonly name = 'OrangeryError'
  readonly code: string
  readonly kind: ErrorKind
  readonly hint: string | undefined
  readonly details: unknown

  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.code = code
    this.kind = options.kind ?? 'internal'
    this.hint = options.hint
    this.details = options.details
  }

  get exitCode(): number {
    return exitCodes[this.kind]
  }
}

export function reportError(error: unknown): ErrorReport {
  if (error instanceof OrangeryError) {
    const { code, kind, message, hint, details } = error
    return { code, kind, message, hint, details }
  }
  const message = error instanceof Error ? error.message : String(error)
  const refusal = refusalOfError(error)
  if (refusal !== null)
    return {
      code: 'host.refused',
      kind: 'cannot_create',
      message: `the system refused it: ${message.split('\n')[0] ?? ''}`,
      hint: refusal.hint,
    }
  return {
    code: 'internal.unexpected',
    kind: 'internal',
    message: `something went wrong in Orangery: ${message.split('\n')[0] ?? ''}`,
    hint: 'This is our fault. Please report it, with what you did.',
  }
}

export function errorFromReport(report: ErrorReport): OrangeryError {
  return new OrangeryError(report.code, report.message, {
    kind: report.kind,
    ...(report.hint === undefined ? {} : { hint: report.hint }),
    details: report.details,
  })
}
