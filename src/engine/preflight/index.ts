export { runChecks } from './check.ts'
export { checkAuth } from './checks/auth.ts'
export { checkDisk } from './checks/disk.ts'
export { checkNoIntegrationMarker, checkReachable } from './checks/roots.ts'
