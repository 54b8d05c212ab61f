export { aliasesFor, hostsFile, listenersFor } from './rules/aliases.ts'
export { makeAuthority, type Authority } from './tls/authority.ts'
export { startBroker, type Broker, type BrokerOptions } from './broker.ts'
export { interceptedNames, type CredentialGrant } from './rules/credentials.ts'
export { gitSettingsEnvironment, proxyEnvironment, trustEnvironment } from './environment.ts'
export { javaStore } from './tls/javaStore.ts'
export { defaultCaps, type Caps } from './rules/caps.ts'
export type { Decided } from './gate.ts'
export { expandOutputs, expandPreset } from './presets/index.ts'
export type { Expansion } from './presets/index.ts'
export type { PresetContext } from './presets/asking.ts'
export { toldInWords, type Told } from './presets/told.ts'
export {
  denyAll,
  decide,
  parseAllowHost,
  cannotAsk,
  findOwnPlace,
  isSandboxItself,
  outsideSandbox,
  parseOutputs,
  refuseOwnPlaces,
} from './rules/policy.ts'
export type { EgressDecision, EgressPolicy, Pin, Rule } from './rules/policy.ts'
export type { Resolver } from './lookups/resolver.ts'
export { usualAuthorities } from './tls/trust.ts'
export { proxiesOf, showProxy, type Proxies } from './dial/upstream.ts'
