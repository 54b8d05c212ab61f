import type { CheckResult } from '../../../shared/doctor.ts'
import type { ContractOutputs } from '../../base/contract.ts'
import { proxiesOf, showProxy, type Proxies } from '../../egress/index.ts'

/**
 * The proxies that the user's own programs go out through: so does the broker. The report says so, and who says
 * where a name leads.
 */
export function readProxies(
  env: Readonly<Record<string, string | undefined>>,
  outputs: ContractOutputs,
  resolve: boolean,
): { readonly proxies: Proxies | null; readonly checks: readonly CheckResult[] } {
  const { proxies, ignored } = proxiesOf(env, resolve)
  if (!outputs.declared || outputs.mode === 'none') return { proxies, checks: [] }
  const ways = [proxies?.tunnel, proxies?.plain].flatMap((proxy) => (proxy == null ? [] : [showProxy(proxy)]))
  const details = [
    ...(ways.length === 0
      ? []
      : [
          `connections go out through ${[...new Set(ways)].join(' and ')}, as your environment says; ${resolve ? handed : kept}`,
        ]),
    ...ignored.map((name) => `${name} is not used: only http://, https:// and socks5:// proxies are`),
  ]
  return { proxies, checks: details.map((detail) => ({ name: 'proxy', ok: true, detail, fix: null })) }
}

const kept = 'names are resolved here, and it is asked for addresses (sandboxProxyResolves)'
const handed =
  'it says where a name leads, which nobody checks: a name may lead into your own network (sandboxProxyResolves)'
