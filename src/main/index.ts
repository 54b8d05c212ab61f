import * as electron from 'electron'
import { createEngine } from '../engine/index.ts'
import { startDesktop } from './desktop.ts'

// Written where a terminal, if there is one, shows it; the window says what matters to its user.
const onUnexpected = (error: unknown) =>
  process.stderr.write(
    `orangery: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  )

process.on('unhandledRejection', onUnexpected)
await startDesktop({
  electron,
  openEngine: () => createEngine({ host: 'desktop', onUnexpected }),
  onUnexpected,
})
