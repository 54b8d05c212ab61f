export { packOwners } from './packOwners.ts'
export { createChangesets, type Changesets, type ChangesetsOptions } from './changesets.ts'
