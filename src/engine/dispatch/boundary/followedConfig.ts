import type { Contract } from '../../base/contract.ts'
import {
  directRoots,
  loadConfig,
  watchConfig,
  type ConfigPlaces,
  type EffectiveConfig,
} from '../../policy/index.ts'

/** Where the config of a dispatch comes from. */
export const configPlaces = (userConfigDir: string, contract: Contract): ConfigPlaces => ({
  userConfigDir,
  roots: contract.roots,
  held: contract.projects,
  around: contract.around,
  direct: directRoots(contract),
})

type Changes = { happened: boolean; listener: (() => void) | undefined }

/** The config as it holds for a dispatch, and word of every change since it was read. */
export class FollowedConfig implements AsyncDisposable {
  readonly config: EffectiveConfig
  readonly #places: ConfigPlaces
  readonly #watch: AsyncDisposable
  readonly #changes: { happened: boolean; listener: (() => void) | undefined }

  private constructor(
    places: ConfigPlaces,
    config: EffectiveConfig,
    watch: AsyncDisposable,
    changes: Changes,
  ) {
    this.#places = places
    this.config = config
    this.#watch = watch
    this.#changes = changes
  }

  static async open(places: ConfigPlaces): Promise<FollowedConfig> {
    const changes: Changes = { happened: false, listener: undefined }
    // First watched, then read: no change falls between the two.
    const watch = await watchConfig(places, () => {
      changes.happened = true
      changes.listener?.()
    })
    try {
      return new FollowedConfig(places, await loadConfig(places), watch, changes)
    } catch (error) {
      await watch[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Told of every change, also of one that came before anybody listened. */
  listen(listener: () => void): void {
    this.#changes.listener = listener
    if (this.#changes.happened) listener()
  }

  /** Given the config after every change. One that cannot be read changes nothing: what holds goes on holding. */
  follow(told: (config: EffectiveConfig) => void): void {
    this.listen(() => void loadConfig(this.#places).then(told, () => {}))
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#changes.listener = undefined
    return Promise.resolve(this.#watch[Symbol.asyncDispose]())
  }
}
