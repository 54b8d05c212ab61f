import type { RunningSandbox, SandboxRequest } from '../../src/engine/base/sandbox.ts'
import type { World } from './world.ts'

/**
 * `BLOCKED`: the attack broke out of the control and not of the sandbox. `ALLOWED_AS_DESIGNED` and
 * `NOT_CLAIMED`: it works, as the documentation says. `BREAKOUT`: it must not and does. `INCONCLUSIVE`: the
 * probe did not run to its end, or the control did not break out, so that nothing was shown.
 */
export type Verdict = 'BLOCKED' | 'ALLOWED_AS_DESIGNED' | 'NOT_CLAIMED' | 'BREAKOUT' | 'INCONCLUSIVE'

export type EscapeCase = {
  readonly id: string
  readonly group: string
  /** What the attacker does, as a sentence. */
  readonly attack: string
  /** What stops it. */
  readonly guard: string
  readonly claim: 'blocked' | 'allowed' | 'not claimed'
  /** Without the guard only that user could do it: for the other there is nothing to show. */
  readonly only?: 'root' | 'ordinary user'
  /** An ordinary user can do it where root has prepared something for him, and not by himself. */
  readonly isPrepared?: true
  /** Called twice, each time in a world of its own: once for the control, once for the sandbox. */
  stage(world: World): Promise<Stage>
}

/** A probe that goes on, as whoever ends it sees it. */
export type Running = {
  /** The process that was started: on the host the shell, or the supervisor of either. */
  readonly pid: number
  kill(): Promise<void> | void
  readonly ended: Promise<unknown>
}

export type Stage = {
  /** A shell script; it runs to its end whatever happens to the attack in it. */
  readonly probe: string
  /** The outside oracle: did it break out? Never asks the probe. */
  readonly escaped: () => Promise<boolean> | boolean
  /** From outside too: did the attack take place at all? */
  readonly tried?: (() => Promise<boolean> | boolean) | undefined
  /** The oracle looks while the probe waits, not after its end. */
  readonly live?: boolean
  /** Ends the run from outside once the probe has made its attempt, our way or, for the control, carelessly. */
  readonly cutOff?: (running: Running, guarded: boolean) => Promise<void>
  /** Who starts it is a process of its own, which can be killed. */
  readonly isSupervised?: true
  /** Takes what it prints, in the place of a file. */
  readonly record?: (chunk: Buffer) => Promise<void>
  /** How long the probe may take, where that is longer than usual. */
  readonly patienceMs?: number
  readonly request?: Partial<SandboxRequest>
  /** How the probe is run with the guard removed; on the host itself unless said otherwise. */
  readonly control?: 'host' | 'sandbox'
  readonly controlRequest?: Partial<SandboxRequest>
  /** Done to the finished sandbox before the probe goes, with the guard or, for the control, without it. */
  readonly attach?: (sandbox: RunningSandbox, guarded: boolean) => Promise<void>
  /** What somebody on the host does with what the probe left, our way or, for the control, carelessly. */
  readonly afterwards?: (guarded: boolean) => Promise<void>
}
