export type { Captured } from './capture.ts'
export { packOwners } from './packOwners.ts'
export { createChangesets, type Changesets, type ChangesetsOptions } from './changesets.ts'
