export { discardAgent, listAgents, restoreArchived, retireLanded, type Retired } from './agents.ts'
export { archiveDays, expireArchive, listArchive, type ArchiveRecord } from './archive.ts'
export { claimLanding, claimWorkspace, listRunning, type ClaimOptions } from './claim.ts'
export {
  collectCommits,
  listCommits,
  publishCommits,
  showCommit,
  type CollectedRef,
  type CommitSummary,
  type InsideRunner,
} from './commits.ts'
export { disposeWorkspace, type DisposeOptions } from './dispose.ts'
export { chooseDriver, describeDriver, type WorkspaceFacts } from './driver.ts'
export { enterInvocation } from './enter.ts'
export { readInvocationMeta, updateInvocation } from './invocation.ts'
export { commitLanding, landingKinds, type Landed, type LandingKind } from './landing.ts'
export { loadWorkspace, planRoots, prepareWorkspace, type PrepareOptions } from './prepare.ts'
export { identifyProject, type Project, type ProjectRoot } from './project.ts'
export { checkRoots } from './roots.ts'
export { inspectInvocation, resolveInvocation, resolveWorktree, scanInvocations } from './scan.ts'
export { startAgent, type StartAgentOptions } from './startAgent.ts'
export {
  createWorktree,
  listWorktrees,
  removeIntegration,
  stakesOf,
  type CreateWorktreeOptions,
  type Stakes,
} from './worktree.ts'
