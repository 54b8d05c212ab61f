import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'

/**
 * Whom the user's own programs trust: the system's authorities, a company's among them, beside those Node
 * brings and NODE_EXTRA_CA_CERTS names.
 */
export const usualAuthorities = (): string[] => [
  ...new Set([...getCACertificates('system'), ...getCACertificates('default')]),
]

/** Made once, when first needed: reading some hundred certificates takes a while. */
export function upstreamTrust(more: readonly string[]): () => SecureContext {
  let made: SecureContext | undefined
  return () => (made ??= createSecureContext({ ca: [...usualAuthorities(), ...more] }))
}
