export { runChecks } from './check.ts'
export { checkAuth } from './checks/auth.ts'
export { checkCopy, checkDisk } from './checks/disk.ts'
export { checkPlatform } from './checks/platform.ts'
export {
  checkConfigApart,
  checkNoIntegrationMarker,
  checkReachable,
  checkNotGitFolder,
  checkWorkingDir,
} from './checks/roots.ts'
