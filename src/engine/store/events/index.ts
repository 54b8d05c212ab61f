export { createEventLog, type EventLog } from './log.ts'
export { readEvents, type ReadOptions } from './read.ts'
export { verifyEvents } from './verify.ts'
