// Set-up speaks on stderr, so that what a command prints stays its own.
export function say(text) {
  process.stderr.write(`orangery: ${text}\n`)
}

export class SetupError extends Error {
  constructor(message, hint) {
    super(message)
    this.hint = hint
  }
}

/** Runs a script's main function; a failure is one line and a hint, never a stack trace. */
export async function main(work) {
  try {
    process.exitCode = (await work()) ?? 0
  } catch (error) {
    say(error instanceof SetupError ? error.message : `set-up: ${error?.message ?? error}`)
    if (error?.hint) process.stderr.write(`  hint: ${error.hint}\n`)
    if (!(error instanceof SetupError) && process.env.ORANGERY_DEBUG) console.error(error)
    process.exitCode = 70
  }
}
