import { ownName } from '../base/sandbox.ts'
import type { Told } from './presets/told.ts'

/**
 * The variables that lead programs to the proxy in the sandbox's own network namespace. Loopback itself stays
 * direct: what the agent starts there is its own.
 */
export function proxyEnvironment(port: number): Record<string, string> {
  const http = `http://127.0.0.1:${port}`
  const names = {
    HTTP_PROXY: http,
    HTTPS_PROXY: http,
    ALL_PROXY: `socks5h://127.0.0.1:${port}`,
    // Servers say of themselves that they are at 0.0.0.0.
    NO_PROXY: `localhost,${ownName},127.0.0.1,127.0.0.0/8,0.0.0.0,::1`,
  }
  const lower = Object.fromEntries(Object.entries(names).map(([name, value]) => [name.toLowerCase(), value]))
  const java = ['http', 'https']
    .flatMap((scheme) => [`-D${scheme}.proxyHost=127.0.0.1`, `-D${scheme}.proxyPort=${port}`])
    .concat(`-Dhttp.nonProxyHosts=localhost|${ownName}|127.*|0.0.0.0|[::1]`)
    .join(' ')
  return {
    ...names,
    ...lower,
    // Node's own fetch and https heed the variables only when told to.
    NODE_USE_ENV_PROXY: '1',
    // Not JAVA_TOOL_OPTIONS: every JVM would say on stderr that it picked it up. Plain Java has the aliases.
    MAVEN_OPTS: java,
    GRADLE_OPTS: java,
  }
}

/**
 * The variables that make programs trust one more authority: `all` is a file with the usual ones and it, `own` one
 * with it alone, `java` a store of Java's with the usual ones and it.
 */
export function trustEnvironment(all: string, own: string, java: string): Record<string, string> {
  return {
    // The one that every Java heeds; each says on stderr that it did.
    JAVA_TOOL_OPTIONS: `-Djavax.net.ssl.trustStore=${java} -Djavax.net.ssl.trustStoreType=jks`,
    // OpenSSL, and with it Python and Ruby; Go.
    SSL_CERT_FILE: all,
    CURL_CA_BUNDLE: all,
    GIT_SSL_CAINFO: all,
    REQUESTS_CA_BUNDLE: all,
    PIP_CERT: all,
    CARGO_HTTP_CAINFO: all,
    AWS_CA_BUNDLE: all,
    // These add to what they trust anyway.
    NODE_EXTRA_CA_CERTS: own,
    DENO_CERT: own,
  }
}

/**
 * Settings as git takes them from the environment, where they are numbered: behind those that are there already, which
 * would otherwise hide them.
 */
export function gitSettingsEnvironment(
  settings: Told['git'] = [],
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const count = given['GIT_CONFIG_COUNT'] ?? ''
  // git itself stops at what is no number.
  if (settings.length === 0 || !/^\d*$/.test(count)) return {}
  const numbered = settings.flatMap(({ key, value }, index) => [
    [`GIT_CONFIG_KEY_${Number(count) + index}`, key],
    [`GIT_CONFIG_VALUE_${Number(count) + index}`, value],
  ])
  return { ...Object.fromEntries(numbered), GIT_CONFIG_COUNT: String(Number(count) + settings.length) }
}
