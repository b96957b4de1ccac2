import type {
  Busy,
  CapacityReport,
  ClassFit,
  Demand,
  WarmAdvice,
} from '../../charts-src/capacity/capacity-report.ts'
import { facts, table } from '../terminal/table.ts'
import type { Terminal } from '../terminal/terminal.ts'

type Look = Pick<Terminal, 'paint' | 'width'>

export function reportLines(report: CapacityReport, look: Look): string[] {
  const { environment, isolation, overhead, maxNodes, slice, demand, warm, busy } = report
  const about = `isolation ${isolation}, up to ${maxNodes} nodes; overhead of each sandbox ${overhead.cpuMillis}m cpu, ${overhead.memoryMib} MiB`
  return [
    `${look.paint.bold(environment)}  ${look.paint.dim(about)}`,
    ...(slice.kind === 'preview' ? ['A preview shares its nodes with the base slice.'] : []),
    '',
    ...report.classes.flatMap((fit) => [...classLines(fit, look), '']),
    ...(demand && warm
      ? warmLines(demand, warm, look)
      : ['Add --arrivals to get a recommended number of warm sandboxes.']),
    ...(busy ? busyLines(busy) : []),
  ]
}

function classLines({ kind, warm, pod, perNode, inAll }: ClassFit, look: Look): string[] {
  const [first] = perNode.limits
  const size = `${pod.cpuMillis}m cpu, ${pod.memoryMib} MiB, ${pod.ephemeralMib} MiB of disk`
  return [
    look.paint.bold(`Class ${kind}: ${inAll.sandboxes} at once, in addition to the warm ones`),
    ...facts(
      [
        ['one takes', size],
        ['a node holds', `${perNode.sandboxes}; ${first?.name ?? ''} binds first (${first?.key ?? ''})`],
        ['warm', String(warm)],
      ],
      look.paint,
    ),
    ...table(
      inAll.limits,
      [
        { title: 'PERMITS', value: ({ sandboxes }) => String(sandboxes) },
        { title: 'LIMIT', value: (limit) => limit.name },
        { title: '', value: ({ sandboxes }) => (sandboxes === inAll.sandboxes ? 'binds first' : '') },
        { title: 'KEY', value: ({ key }) => key },
      ],
      look,
    ),
  ]
}

const percent = (ratio: number) => `${(Math.floor(ratio * 10_000) / 100).toFixed(2)} %`

function warmLines(demand: Demand, warm: WarmAdvice, { paint }: Look): string[] {
  const { kind, arrivalsPerHour, dispersion, replenishSeconds, targetHitRatio } = demand
  const bursts = dispersion === 1 ? '' : `, in bursts of dispersion ${dispersion}`
  return [
    paint.bold(`Warm sandboxes of class ${kind}, for ${arrivalsPerHour} claims an hour${bursts}`),
    ...facts(
      [
        ['starting at a time', `${warm.starting.toFixed(2)} on average, ${replenishSeconds} s each`],
        ['now', `${warm.configured} warm: ${percent(warm.configuredHitRatio)} of claims find one`],
        [
          'recommended',
          `${warm.recommended} warm: ${percent(warm.recommendedHitRatio)}, wanted ${percent(targetHitRatio)}`,
        ],
        ['in addition', `${warm.sandboxesBeside} can be bound at once`],
      ],
      paint,
    ),
  ]
}

function busyLines({ mean, most, share, fits }: Busy): string[] {
  return [
    `${mean.toFixed(1)} are bound on average, at most ${most} for ${percent(share)} of the time: ${fits ? 'they fit' : 'they do not fit'}.`,
  ]
}
