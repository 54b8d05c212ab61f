import type { PresetExpansion } from '../../shared/hosts.ts'
import { Plain } from '../text/Plain.tsx'

/** What one preset means here. */
export const ExpansionLine = ({ rule, hosts, left_out: leftOut, told }: PresetExpansion) => (
  <li className="[overflow-wrap:anywhere]">
    <span className="font-mono text-micro">{rule}</span>{' '}
    {hosts.length === 0 ? 'means nothing here' : <Plain>{`means ${hosts.join(', ')}`}</Plain>}
    {leftOut !== undefined && leftOut.length > 0 && (
      <Plain>{`; not ${leftOut.join(', ')}, which only a pin of yours can open`}</Plain>
    )}
    {told !== undefined && told.length > 0 && <Plain>{`; tools inside are told ${told.join(', ')}`}</Plain>}
  </li>
)
