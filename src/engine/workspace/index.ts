export {
  discardAgent,
  listAgents,
  reapLanded,
  restoreArchived,
  retireLanded,
  type Retired,
} from './find/agents.ts'
export { giveIdentity } from './git/agentIdentity.ts'
export { readUserIdentity, type UserIdentity } from './git/userIdentity.ts'
export { borrowedNotes, checkBorrowed } from './git/borrowed.ts'
export { archiveDays, expireArchive, listArchive } from './end/archive.ts'
export {
  checkWriterAbove,
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
} from './find/claim.ts'
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
} from './git/commits.ts'
export { frameGit } from './git/framedGit.ts'
export {
  listCommits,
  noCommit,
  onNoBranch,
  readLog,
  readPatch,
  showCommit,
  startsWith,
  unlandedCommits,
} from './git/readCommits.ts'
export { canClone } from './make/clone.ts'
export { continueInvocation } from './make/continueInvocation.ts'
export { disposeWorkspace, hasWork, type DisposeOptions } from './end/dispose.ts'
export { chooseDriver, describeDriver, lowerRung, type WorkspaceFacts } from './driver.ts'
export { assertMarked, enterInvocation } from './make/enter.ts'
export { freezeRefs } from './git/freezeRefs.ts'
export { lendObjects } from './git/lendObjects.ts'
export { readInvocationMeta, syncInvocation, updateInvocation } from './find/invocation.ts'
export {
  commitLanding,
  integrationPlace,
  landingKinds,
  refuseOwnWork,
  type Landed,
  type LandingKind,
} from './land/landing.ts'
export { landingStays } from './land/undoneLanding.ts'
export { someOf } from './git/notes.ts'
export { loadWorkspace, planRoots, prepareWorkspace, type PrepareOptions } from './make/prepare.ts'
export { refuseWorktreesOf } from './git/nested.ts'
export { gitsBeside, identifyProject, type Project, type ProjectRoot } from './find/project.ts'
export { checkRoots } from './find/roots.ts'
export { inspectInvocation, resolveInvocation, resolveWorktree, scanInvocations } from './find/scan.ts'
export {
  assertStartable,
  integrationTree,
  repoIdNear,
  startAgent,
  worktreeNotes,
  type StartAgentOptions,
} from './make/startAgent.ts'
export { layerPaths, ownStakes, stakesNotes, stakesOf } from './end/stakes.ts'
export { removeIntegration } from './end/endWorktree.ts'
export { createWorktree, listWorktrees, type CreateWorktreeOptions } from './make/worktree.ts'
export { findOrphans, takeInAgain } from './find/orphans.ts'
export { isInside } from './find/pathSafety.ts'
