import { existsSync, readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import {
  type CapacityReport,
  capacityReport,
  type Demand,
} from '../../charts-src/capacity/capacity-report.ts'
import { MAX_LOAD } from '../../charts-src/capacity/warm-size.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { table } from '../terminal/table.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const Positive = z.coerce.number().positive()
const CapacityOptions = z.object({
  env: z.string().min(1),
  arrivals: Positive.optional(),
  startSeconds: Positive.default(30),
  hitRatio: z.coerce.number().min(0.5).max(0.9999).default(0.99),
  json: z.boolean().default(false),
})
type CapacityOptions = z.infer<typeof CapacityOptions>

export function capacityCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'capacity',
    about: 'Say how many sandboxes an environment holds, what binds first, and how many should be warm.',
    example: 'agentweaver capacity --env prod --arrivals 20 --start-seconds 25 --hit-ratio 0.99',
  })
    .requiredOption('--env <name>', 'environments/<name>.json in this folder, or the path of a file')
    .option('--arrivals <per minute>', 'claims per minute of each kind; without it nothing is recommended')
    .option(
      '--start-seconds <s>',
      'from the start of a sandbox until it is ready (default: 30, an assumption)',
    )
    .option('--hit-ratio <share>', 'share of claims that should find a warm one (default: 0.99)')
    .addHelpText(
      'after',
      `\nMeasure --start-seconds where it counts: agent_sandbox_creation_latency_ms of the controller, for warm launches.
The model: claims arrive by a Poisson process, each takes one sandbox and orders one. How many are being started is then
Poisson with mean arrivals × start time, whatever start times are like (Palm 1938; Feeney and Sherbrooke 1966). The
recommended pool is also played claim by claim, so that the formula can be seen to hold.`,
    )
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

function demandOf({ arrivals, startSeconds, hitRatio }: CapacityOptions): Demand | undefined {
  if (arrivals === undefined) return undefined
  if ((arrivals / 60) * startSeconds > MAX_LOAD) {
    throw usageError(
      `More than ${MAX_LOAD} sandboxes would be starting at any time: check --arrivals and --start-seconds.`,
    )
  }
  return { arrivalsPerMinute: arrivals, startSeconds, target: hitRatio }
}

function readEnvironment(env: string, cwd: string): Environment {
  const path = env.endsWith('.json') ? resolve(cwd, env) : resolve(cwd, 'environments', `${env}.json`)
  if (!existsSync(path))
    throw usageError(`There is no ${path}.`, 'Name an environment, or the path of its file.')
  const loaded = loadEnvironment(basename(path, '.json'), readFileSync(path, 'utf8'))
  if (!loaded.ok)
    throw usageError([`${path} has mistakes:`, ...loaded.mistakes.map((one) => `  ${one}`)].join('\n'))
  return loaded.environment
}

const percent = (ratio: number) => `${(100 * ratio).toFixed(2)} %`

function reportLines(
  { environment, fits, demand, advice }: CapacityReport,
  { paint, width }: Terminal,
): string[] {
  const fitLines = fits.flatMap(({ kind, limits, sandboxes }) => [
    paint.bold(`${environment}: ${sandboxes} sandboxes of class ${kind} at once, beside the warm pools`),
    ...table(
      limits,
      [
        { title: 'PERMITS', value: (limit) => String(limit.sandboxes) },
        { title: 'LIMIT', value: (limit) => limit.name + (limit === limits[0] ? ' (binds first)' : '') },
        { title: 'RAISE', value: (limit) => limit.raise },
      ],
      { paint, width },
    ),
    '',
  ])
  if (!demand || !advice) return [...fitLines, 'Give --arrivals for a recommended number of warm sandboxes.']
  const { arrivalsPerMinute, startSeconds, target } = demand
  return [
    ...fitLines,
    paint.bold(
      `Warm, for ${arrivalsPerMinute} claims a minute that start in ${startSeconds} s and ${percent(target)} hits`,
    ),
    ...table(
      advice,
      [
        { title: 'CLASS', value: ({ kind }) => kind },
        { title: 'NOW', value: ({ configured }) => String(configured) },
        { title: 'HITS', value: ({ configuredHitRatio }) => percent(configuredHitRatio) },
        { title: 'RECOMMENDED', value: ({ recommended }) => String(recommended) },
        { title: 'HITS', value: ({ recommendedHitRatio }) => percent(recommendedHitRatio) },
        {
          title: 'SIMULATED (FIXED, VARYING STARTS)',
          value: ({ simulated }) => `${percent(simulated.fixed)}, ${percent(simulated.exponential)}`,
        },
      ],
      { paint, width },
    ),
  ]
}
