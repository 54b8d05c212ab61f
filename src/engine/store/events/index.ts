export { createEventLog, type EventLog } from './log.ts'
export { readEvents, type ReadOptions } from './read.ts'
export { hashOfUnwritten, proveEvents, verifyEvents, type ProvenEvents } from './verify.ts'
