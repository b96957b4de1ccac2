import type { Command } from 'commander'
import * as z from 'zod'
import { capacityReport, type Demand } from '../../charts-src/capacity/capacity-report.ts'
import { MAX_LOAD } from '../../charts-src/capacity/warm-size.ts'
import { SandboxKind } from '../../contracts/names.ts'
import { readEnvironment } from '../capacity/read-environment.ts'
import { reportLines } from '../capacity/report-lines.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

/** Cold start of a Kata sandbox on AKS, measured in the predecessor project (sabbour/agentweaver). */
const KATA_START_SECONDS = 90

const positive = (max: number) => z.coerce.number().positive().max(max)
const CapacityOptions = z.object({
  env: z.string().min(1),
  class: SandboxKind.optional(),
  arrivals: positive(1_000_000).optional(),
  duration: positive(10_080).optional(),
  replenishSeconds: positive(3600).optional(),
  hitRatio: z.coerce.number().min(0.5).max(0.9999).optional(),
  dispersion: z.coerce.number().min(1).max(100).optional(),
  json: z.boolean().default(false),
})
type CapacityOptions = z.infer<typeof CapacityOptions>

const DEMAND = {
  class: '--class',
  duration: '--duration',
  replenishSeconds: '--replenish-seconds',
  hitRatio: '--hit-ratio',
  dispersion: '--dispersion',
} as const

export function capacityCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'capacity',
    about:
      'Calculate how many sandboxes fit in an environment, which limit is reached first, and how many to keep warm.',
    example: 'agentweaver capacity --env prod --arrivals 120 --duration 30 --hit-ratio 0.99',
  })
    .requiredOption('--env <name>', 'environments/<name>.json in this folder, or the path of such a file')
    .option(
      '--arrivals <per hour>',
      'sandboxes requested per hour; needed to recommend a number of warm sandboxes',
    )
    .option('--duration <minutes>', 'mean time that a sandbox is in use; shows how many are in use at once')
    .option('--class <class>', 'class of the requested sandboxes: agent or command (default: agent)')
    .option('--hit-ratio <share>', 'share of requests that should get a warm sandbox (default: 0.99)')
    .option(
      '--dispersion <index>',
      'variance of requests divided by their mean; above 1 for bursts (default: 1)',
    )
    .option(
      '--replenish-seconds <s>',
      `time until a used warm sandbox is replaced (default: ${KATA_START_SECONDS})`,
    )
    .addHelpText('after', '\ndocs/capacity.md describes the model and the defaults.')
  command.action(() => {
    const options = parseOptions(CapacityOptions, command)
    const { terminal } = context
    const report = capacityReport(readEnvironment(options.env, terminal.io.cwd), demandOf(options))
    if (options.json) terminal.json(report)
    else terminal.print(reportLines(report, terminal))
    context.exit(EXIT.ok)
  })
  return command
}

function demandOf(options: CapacityOptions): Demand | undefined {
  const { arrivals, duration, replenishSeconds = KATA_START_SECONDS } = options
  if (arrivals === undefined) {
    const idle = (Object.keys(DEMAND) as (keyof typeof DEMAND)[]).filter(
      (name) => options[name] !== undefined,
    )
    if (idle.length === 0) return undefined
    throw usageError(`${idle.map((name) => DEMAND[name]).join(', ')} cannot be used without --arrivals.`)
  }
  if ((arrivals / 3600) * Math.max(replenishSeconds, (duration ?? 0) * 60) > MAX_LOAD) {
    throw usageError(
      `More than ${MAX_LOAD} sandboxes would be under way at once: check --arrivals, --duration and --replenish-seconds.`,
    )
  }
  return {
    kind: options.class ?? 'agent',
    arrivalsPerHour: arrivals,
    dispersion: options.dispersion ?? 1,
    replenishSeconds,
    targetHitRatio: options.hitRatio ?? 0.99,
    ...(duration === undefined ? {} : { durationMinutes: duration }),
  }
}
