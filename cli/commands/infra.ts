import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Command } from 'commander'
import * as z from 'zod'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import type { Plan } from '../../contracts/planned-resource.ts'
import { parseStackFile } from '../../infra/config-schema.ts'
import type {
  ConfigProblem,
  InfraConfig,
  LayerConfig,
  PlatformConfig,
  SliceConfig,
} from '../../infra/config-sections.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { type AzureCheck, azureChecks } from '../infra/azure-checks.ts'
import { capacityBought } from '../infra/capacity-bought.ts'
import { capacityLines } from '../infra/check-lines.ts'
import { egressProblems } from '../infra/egress-agreement.ts'
import { immutableProblems } from '../infra/immutable.ts'
import { modelProblems } from '../infra/model-agreement.ts'
import { readStackFile, stackFileOf } from '../infra/read-stack-file.ts'
import { createCallProgram } from '../program-call/call-program.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const CheckOptions = z.object({
  against: z.string().optional(),
  azure: z.boolean().default(false),
  json: z.boolean().default(false),
})

/** Everything about the stack files of the infrastructure. */
export function infraCommand(context: CliContext): Command {
  return new Command('infra')
    .summary('Check stack files of the infrastructure')
    .description('Check stack files of the infrastructure, without access to a cloud unless you ask for it.')
    .addCommand(checkCommand(context))
}

function checkCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'check',
    about:
      'Check a stack file without access to a cloud: address ranges, sizes, pools, quota, names, and values that can no longer change. Prints the capacity that it pays for. With --azure, it also checks what the subscription lacks.',
    example:
      'agentweaver infra check dev\nagentweaver infra check ./Pulumi.dev.yaml --against plans/dev.json\nagentweaver infra check dev --azure',
  })
    .argument('<stack>', 'name of a stack, or the path of its file')
    .option('--against <plan>', 'the plan that was applied last (default: plans/<stack>.json, if it exists)')
    .option(
      '--azure',
      'ask the subscription for registrations and the budget through az, which must be logged in',
    )
    .addHelpText('after', '\nExit status: 0 no problems, 1 problems, 2 the file cannot be read.')
  command.action(async (stack: string) => {
    const options = parseOptions(CheckOptions, command)
    const { terminal } = context
    const file = stackFileOf(stack)
    const folder = terminal.io.cwd
    const parsed = parseStackFile(await readStackFile(folder, stack))
    if ('problems' in parsed) return tellProblems(context, { file, problems: parsed.problems, ...options })
    const { config } = parsed
    const plan = await readPlan(folder, config.environment, options.against)
    const problems = await disagreements(folder, config, plan)
    if (problems.length > 0) return tellProblems(context, { file, problems, ...options })
    const azure =
      options.azure && config.kind === 'platform' && config.layer === 'all'
        ? await azureChecks({ config, call: createCallProgram(terminal.io), today: new Date() })
        : []
    await tellCapacity(context, { file, config, plan, azure, json: options.json })
  })
  return command
}

/** What does not fit the environment file, or the plan that was applied last. */
async function disagreements(
  folder: string,
  config: InfraConfig,
  { plan }: ReadPlan,
): Promise<readonly ConfigProblem[]> {
  if (config.kind !== 'platform' || config.layer !== 'all') return []
  const changed = plan ? immutableProblems(config, plan) : []
  const environment = await environmentOf(folder, config)
  return [...egressProblems(config, environment), ...modelProblems(config, environment), ...changed]
}

interface Problems {
  readonly file: string
  readonly problems: readonly ConfigProblem[]
  readonly json: boolean
}

function tellProblems({ terminal, exit }: CliContext, { file, problems, json }: Problems): void {
  if (json) terminal.json({ ok: false, file, problems })
  else terminal.print(problems.map(({ path, message }) => `${file}: ${path}: ${message}`))
  exit(EXIT.runFailed)
}

interface Right {
  readonly file: string
  readonly config: InfraConfig
  readonly plan: ReadPlan
  readonly azure: readonly AzureCheck[]
  readonly json: boolean
}

async function tellCapacity(
  { terminal, exit }: CliContext,
  { file, config, plan, azure, json }: Right,
): Promise<void> {
  const ok = azure.every(({ state }) => state !== 'fail')
  exit(ok ? EXIT.ok : EXIT.runFailed)
  const { path: comparedWith } = plan
  if (config.kind === 'slice' || config.layer !== 'all') {
    const { record, text } = partOf(config)
    return json ? terminal.json({ ok, file, ...record }) : terminal.print(`${file}: right. ${text}`)
  }
  const capacity = capacityBought(config, await environmentOf(terminal.io.cwd, config))
  if (json)
    return terminal.json({
      ok,
      file,
      comparedWith: comparedWith ?? null,
      capacity,
      ...(azure.length > 0 && { azure }),
    })
  const against = comparedWith === undefined ? 'compared with no plan' : `compared with ${comparedWith}`
  terminal.print([`${file}: right; ${against}`, ...capacityLines(capacity, terminal), ...azureLines(azure)])
}

/** A slice or layer uses the nodes of its platform, so it pays for no capacity. */
function partOf(config: SliceConfig | LayerConfig): { readonly record: object; readonly text: string } {
  const { environment } = config
  if (config.kind === 'slice') {
    const { slug, expires, ceiling } = config
    return {
      record: { slice: { slug, expires, ceiling } },
      text: `A slice ${slug} until ${expires}: it uses the nodes of ${environment}; at most ${ceiling.pods} pods, ${ceiling.cpuMillis}m cpu, ${ceiling.memoryMib} MiB.`,
    }
  }
  const { layer } = config
  return {
    record: { layer: { environment, layer } },
    text: `The layer ${layer} of ${environment}: its settings come from Pulumi.${environment}.yaml.`,
  }
}

const azureLines = (azure: readonly AzureCheck[]) =>
  azure.map(({ check, state, detail }) => `azure ${check}: ${state}: ${detail}`)

interface ReadPlan {
  readonly path?: string
  readonly plan?: Plan
}

const PlanShape = z.looseObject({
  resources: z.array(z.looseObject({ type: z.string(), inputs: z.looseObject({}) })),
})

/** The plan to compare with. The committed plan may be missing; a plan that the user named must exist. */
async function readPlan(folder: string, environment: string, named: string | undefined): Promise<ReadPlan> {
  const path = named ?? `plans/${environment}.json`
  const file = resolve(folder, path)
  if (!existsSync(file)) {
    if (named === undefined) return {}
    throw usageError(`There is no plan ${named} in ${folder}.`, 'npm run plan writes one.')
  }
  const parsed = PlanShape.safeParse(jsonOf(await readFile(file, 'utf8')))
  if (!parsed.success) throw usageError(`${path} is not a plan.`, 'npm run plan writes one.')
  return { path, plan: parsed.data as unknown as Plan }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * The environment file of the charts, if it exists and is valid. Its mistakes are reported by `agentweaver capacity`.
 */
async function environmentOf(folder: string, { environment }: PlatformConfig) {
  const file = resolve(folder, 'environments', `${environment}.json`)
  if (!existsSync(file)) return undefined
  const loaded = loadEnvironment(environment, await readFile(file, 'utf8'))
  return loaded.ok ? loaded.environment : undefined
}
