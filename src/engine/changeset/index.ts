export type { Captured } from './capture.ts'
export { isForeign } from './commits.ts'
export { packOwners } from './packOwners.ts'
export { createChangesets, type Changesets, type ChangesetsOptions } from './changesets.ts'
