import { createInterface } from 'node:readline/promises'

/** A question to whoever sits at the terminal. Anything but yes, also the end of input, is no. */
export async function ask(question: string): Promise<boolean> {
  using lines = createInterface({ input: process.stdin, output: process.stdout })
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
  const answer = await Promise.race([lines.question(`${question} [y/N] `).catch(() => ''), closed])
  return /^y(es)?$/i.test(answer.trim())
}
