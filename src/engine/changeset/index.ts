export { createChangesets, type Changesets, type ChangesetsOptions } from './changesets.ts'
