// Appends events until it is killed and prints the number of each that it knows to be written.
import { createEventLog } from '../../src/engine/store/index.ts'

const log = await createEventLog(process.argv[2] ?? '')
for (;;) {
  let last = 0
  for (let count = 0; count < 20; count++) {
    last = log.append({ type: 'Note', text: 'x'.repeat(Math.floor(Math.random() * 5_000)) }).seq
  }
  await log.flush()
  process.stdout.write(`${last}\n`)
}
