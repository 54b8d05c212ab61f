import { fail } from './failure.ts'
import { createProgram } from './program.ts'
import { flushStreams, watchStreams } from './terminal/streams.ts'

/** Runs one command line to its end and gives back the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  watchStreams()
  const program = createProgram()
  let code: number
  try {
    await program.parseAsync([...args], { from: 'user' })
    code = Number(process.exitCode ?? 0)
  } catch (error) {
    code = await fail(error, program, args)
  }
  try {
    await flushStreams()
    return code
  } catch (error) {
    return code === 0 ? await fail(error, program, args) : code
  }
}
