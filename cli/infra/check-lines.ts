import { facts, table } from '../terminal/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import type { CapacityBought } from './capacity-bought.ts'

type Look = Pick<Terminal, 'paint' | 'width'>

/** Formats the capacity of a stack file for the terminal. */
export function capacityLines(bought: CapacityBought, look: Look): string[] {
  const { perNode, limit, inAll, warm, pools, vcpus, classes = [] } = bought
  return [
    ...facts(
      [
        ['per node', `${perNode} sandboxes; ${limit} is the limit`],
        ['in total', `${inAll} sandboxes with all nodes of the pool, including warm ones`],
        [
          'warm',
          `${warm.sandboxes} sandboxes, ${warm.nodes} ${warm.nodes === 1 ? 'node' : 'nodes'}: ${warm.nodeHoursPerMonth} node-hours a month without any run`,
        ],
        ...classes.map(
          ({ kind, perNode: each, inAll: bound }) =>
            [
              `class ${kind}`,
              `${each} per node, ${bound} bound at once in addition to the warm ones`,
            ] as const,
        ),
      ],
      look.paint,
    ),
    ...table(
      pools,
      [
        { title: 'POOL', value: ({ pool }) => pool },
        { title: 'SIZE', value: ({ size }) => size },
        { title: 'NODE-HOURS A MONTH', value: (one) => `${one.leastNodeHours} to ${one.mostNodeHours}` },
      ],
      look,
    ),
    ...table(
      vcpus,
      [
        { title: 'FAMILY', value: ({ family }) => family },
        { title: 'VCPUS AT MOST', value: ({ most }) => String(most) },
        {
          title: 'QUOTA',
          value: ({ quota }) => (quota === undefined ? 'not given: not checked' : String(quota)),
        },
      ],
      look,
    ),
  ]
}
