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
  claimTurn,
  claimWorkspace,
  listRunning,
  listRunningOn,
  sweepClaims,
  touches,
  type ClaimOptions,
  type CutOff,
  type Landing,
} from './claim.ts'
export {
  collectedRefs,
  adoptCommits,
  collectCommits,
  leftGitObjects,
  nameInside,
  publishCommits,
  type CollectedRef,
  type InsideRunner,
  type OnRefused,
} from './commits.ts'
export { frameGit } from './framedGit.ts'
export {
  listCommits,
  noCommit,
  onNoBranch,
  readLog,
  readPatch,
  showCommit,
  startsWith,
  unlandedCommits,
} from './readCommits.ts'
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
export { landingStays } from './undoneLanding.ts'
export { someOf } from './notes.ts'
export { loadWorkspace, planRoots, prepareWorkspace, type PrepareOptions } from './prepare.ts'
export { refuseWorktreesOf } from './nested.ts'
export { gitsBeside, identifyProject, type Project, type ProjectRoot } from './project.ts'
export { checkRoots } from './roots.ts'
export { inspectInvocation, resolveInvocation, resolveWorktree, scanInvocations } from './scan.ts'
export {
  assertStartable,
  integrationTree,
  repoIdNear,
  startAgent,
  worktreeNotes,
  type StartAgentOptions,
} from './startAgent.ts'
export { layerPaths, ownStakes, stakesNotes, stakesOf } from './stakes.ts'
export { removeIntegration } from './endWorktree.ts'
export { createWorktree, listWorktrees, type CreateWorktreeOptions } from './worktree.ts'
export { findOrphans, takeInAgain } from './orphans.ts'
export { isInside } from './pathSafety.ts'
