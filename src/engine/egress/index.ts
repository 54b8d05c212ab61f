export { aliasesFor, hostsFile, listenersFor } from './aliases.ts'
export { makeAuthority, type Authority } from './authority.ts'
export { startBroker, type Broker, type BrokerOptions } from './broker.ts'
export { interceptedNames, type CredentialGrant } from './credentials.ts'
export { gitSettingsEnvironment, proxyEnvironment, trustEnvironment } from './environment.ts'
export { javaStore } from './javaStore.ts'
export { defaultCaps, type Caps } from './caps.ts'
export type { Decided } from './gate.ts'
export { expandOutputs, expandPreset } from './presets/index.ts'
export type { Expansion } from './presets/index.ts'
export type { PresetContext } from './presets/asking.ts'
export { toldInWords, type Told } from './presets/told.ts'
export {
  denyAll,
  decide,
  parseAllowHost,
  findOwnPlace,
  isSandboxItself,
  parseOutputs,
  refuseOwnPlaces,
} from './policy.ts'
export type { EgressDecision, EgressPolicy, Pin, Rule } from './policy.ts'
export type { Resolver } from './resolver.ts'
export { usualAuthorities } from './trust.ts'
export { proxiesOf, showProxy, type Proxies } from './upstream.ts'
