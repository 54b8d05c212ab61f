import { fail } from './failure.ts'
import { createProgram } from './program.ts'

/** A reader that has seen enough (`| head`) is no error. */
function endQuietlyOnBrokenPipe(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0)
      throw error
    })
  }
}

/** Runs one command line to its end and gives back the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  endQuietlyOnBrokenPipe()
  const program = createProgram()
  try {
    await program.parseAsync([...args], { from: 'user' })
    return Number(process.exitCode ?? 0)
  } catch (error) {
    return fail(error, program, args)
  }
}
