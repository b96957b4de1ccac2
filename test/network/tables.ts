import { ROWS } from '../../charts-src/access-matrix/assertion.ts'
import { FORBIDDEN_EVERYWHERE } from '../../charts-src/network/forbidden.ts'
import { placementText } from '../../policies/agent/egress/describe.ts'
import { readEgressPolicy } from '../../policies/agent/egress/load.ts'
import type { Destination } from '../../policies/agent/egress/schema.ts'
import { REDUNDANT } from '../reachability/redundant-mutants.ts'

/** The generated tables of docs/network.md, by their mark. */
export const TABLES: Readonly<Record<string, () => string>> = {
  destinations: () =>
    table(
      ['class', 'destination', 'limits', 'FQDN rules', 'proxy', 'laptop', 'why'],
      Object.entries(readEgressPolicy().classes).flatMap(([kind, destinations]) =>
        destinations.map((one) => [
          kind,
          `\`${one.host}:${one.ports.join(',')}\``,
          restrictionsText(one),
          placementText(one, 'fqdn'),
          one.host.startsWith('$') ? 'not listed' : placementText(one, 'proxy'),
          one.host.startsWith('$') ? 'not applicable' : placementText(one, 'laptop'),
          one.why,
        ]),
      ),
    ),
  forbidden: () =>
    table(
      ['range', 'contains'],
      FORBIDDEN_EVERYWHERE.map(({ cidr, what }) => [`\`${cidr}\``, what]),
    ),
  assertions: () =>
    table(
      ['assertion', 'must hold'],
      Object.entries(ROWS).map(([row, text]) => [row, text]),
    ),
  redundant: () =>
    table(
      ['change', 'why it has no effect'],
      REDUNDANT.map(({ what, reason }) => [what, reason]),
    ),
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}

/** Describes the restrictions of a destination other than its name and ports. */
function restrictionsText({
  mode,
  methods,
  paths,
  requests,
  phases,
  caller,
  maxSentMiB,
}: Destination): string {
  const pathsText = (listed: readonly string[]) => listed.map((path) => `\`${path}\``).join(', ')
  const parts = [
    ...(mode === 'read-only' ? ['read-only'] : []),
    ...(methods === undefined ? [] : [methods.join(', ')]),
    ...(paths === undefined ? [] : [pathsText(paths)]),
    ...(requests ?? []).map((one) => `${one.methods.join(', ')} of ${pathsText(one.paths)}`),
    ...(phases === undefined ? [] : [`in ${phases.join(' and ')}`]),
    ...(caller === undefined ? [] : [`from ${caller}`]),
    ...(maxSentMiB === undefined ? [] : [`at most ${maxSentMiB} MiB sent`]),
  ]
  return parts.join('; ')
}
