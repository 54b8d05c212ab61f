import { realpath } from 'node:fs/promises'
import type { EffectiveConfig } from '../../shared/config.ts'
import type { DispatchId } from '../../shared/ids.ts'
import type { Ancestor, EscalationRecords } from '../base/escalation.ts'
import type { Contract } from '../base/contract.ts'
import type { Bound } from './ancestors.ts'
import type { EscalationContext, FixedFiles } from './context.ts'
import { directRoots, loadConfig } from './config/load.ts'
import { defaultConfig } from './config/merge.ts'
import { givenByConfig } from './heldByConfig.ts'
import { networkNow } from './reach.ts'

export type ContextParts = {
  readonly records: EscalationRecords
  readonly userConfigDir: string
  /** The contract a dispatch was started with; fails where it cannot be read. */
  readonly contractOf: (id: DispatchId) => Promise<Contract>
}

/** Only layers can be made writable, or read-only, under an agent that runs. */
function fixedFiles(contract: Contract | null): FixedFiles | null {
  if (contract === null || contract.driver === undefined) return null
  const { driver, writableFiles, writableAt = {} } = contract
  if (driver === 'kernel-overlay' || driver === 'fuse-overlayfs') return null
  const workspace = driver === 'direct' ? 'a workspace that is the real files' : 'a workspace that is a copy'
  return { writableFiles, writableAt, workspace }
}

/** What is decided by, as it is now: the configs, the contract, and those of its ancestors. */
export class Contexts {
  readonly #parts: ContextParts

  constructor(parts: ContextParts) {
    this.#parts = parts
  }

  async of(id: DispatchId, at: Date): Promise<EscalationContext> {
    const { roots, ancestors } = this.#parts.records.read(id)
    const contract = await this.#contractOf(id)
    const config = await this.#config(roots, contract, at)
    const real = await Promise.all(roots.map((root) => realpath(root).catch(() => root)))
    const bounds = await Promise.all(ancestors.map((ancestor) => this.#boundOf(ancestor, at)))
    const namesOutputs = contract?.outputs.declared === true && contract.outputs.mode !== 'open'
    return {
      at,
      config,
      roots: real,
      given: contract === null ? null : givenByConfig(contract, config),
      bounds: new Map(bounds.filter((bound) => bound !== null)),
      namesOutputs,
      isOpen: (state) => contract !== null && networkNow(contract, state, config).mode === 'open',
      denies: contract?.outputs.deny ?? [],
      fixed: fixedFiles(contract),
    }
  }

  /**
   * Where a config cannot be read a person hears of a request all the same, as far as the user's own leaves room for it;
   * nothing answers it with a yes until it can.
   */
  async ofUnreadable(id: DispatchId, at: Date): Promise<EscalationContext> {
    const contract = await this.#contractOf(id)
    const denies = contract?.outputs.deny ?? []
    const config = await this.ownConfig(id, at).catch(() => defaultConfig())
    return {
      at,
      config,
      roots: [],
      bounds: new Map(),
      denies,
      fixed: fixedFiles(contract),
      isUnreadable: true,
    }
  }

  /** The user's own config, whatever the projects' say. */
  async ownConfig(id: DispatchId, at: Date): Promise<EffectiveConfig> {
    return this.#config([], { projects: (await this.#contractOf(id))?.projects }, at)
  }

  async #boundOf({ dispatch, roots }: Ancestor, at: Date): Promise<readonly [DispatchId, Bound] | null> {
    try {
      const contract = await this.#parts.contractOf(dispatch)
      return [dispatch, { contract, config: await this.#config(roots, contract, at) }]
    } catch {
      return null
    }
  }

  #config(
    roots: readonly string[],
    contract: (Pick<Contract, 'projects'> & Partial<Contract>) | null,
    at: Date,
  ): Promise<EffectiveConfig> {
    const { userConfigDir } = this.#parts
    const direct = contract === null ? [] : directRoots(contract)
    const { projects: held, around } = contract ?? {}
    return loadConfig({ userConfigDir, roots, held, around, direct }, at)
  }

  /** Without one it has not begun, and could not have changed anything. */
  #contractOf(id: DispatchId): Promise<Contract | null> {
    return this.#parts.contractOf(id).catch(() => null)
  }
}
