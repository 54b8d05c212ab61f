export {
  discardAgent,
  listAgents,
  reapLanded,
  restoreArchived,
  retireLanded,
  type Retired,
} from './agents.ts'
export { giveIdentity } from './agentIdentity.ts'
export { readUserIdentity, type UserIdentity } from './userIdentity.ts'
export { borrowedNotes, checkBorrowed } from './borrowed.ts'
export { archiveDays, expireArchive, listArchive } from './archive.ts'
export {
  claimLanding,
  claimWorkspace,
  listRunning,
  listRunningOn,
  sweepClaims,
  type ClaimOptions,
} from './claim.ts'
export {
  adoptCommits,
  collectCommits,
  leftGitObjects,
  publishCommits,
  type CollectedRef,
  type InsideRunner,
} from './commits.ts'
export { listCommits, showCommit } from './readCommits.ts'
export { canClone } from './clone.ts'
export { continueInvocation } from './continueInvocation.ts'
export { disposeWorkspace, hasWork, type DisposeOptions } from './dispose.ts'
export { chooseDriver, describeDriver, lowerRung, type WorkspaceFacts } from './driver.ts'
export { assertMarked, enterInvocation } from './enter.ts'
export { freezeRefs } from './freezeRefs.ts'
export { lendObjects } from './lendObjects.ts'
export { readInvocationMeta, syncInvocation, updateInvocation } from './invocation.ts'
export {
  commitLanding,
  integrationPlace,
  landingKinds,
  refuseOwnWork,
  type Landed,
  type LandingKind,
} from './landing.ts'
export { someOf } from './notes.ts'
export { loadWorkspace, planRoots, prepareWorkspace, type PrepareOptions } from './prepare.ts'
export { identifyProject, type Project, type ProjectRoot } from './project.ts'
export { checkRoots } from './roots.ts'
export { inspectInvocation, resolveInvocation, resolveWorktree, scanInvocations } from './scan.ts'
export {
  integrationTree,
  repoIdNear,
  startAgent,
  worktreeNotes,
  type StartAgentOptions,
} from './startAgent.ts'
export { layerPaths, ownStakes, stakesNotes, stakesOf } from './stakes.ts'
export { createWorktree, listWorktrees, removeIntegration, type CreateWorktreeOptions } from './worktree.ts'
export { findOrphans, takeInAgain } from './orphans.ts'
export { isInside } from './pathSafety.ts'
