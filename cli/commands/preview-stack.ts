import { Command } from 'commander'
import * as z from 'zod'
import { previewSlug, previewStack } from '../../infra/model/preview-slug.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { createPulumi, type Pulumi } from '../preview-stack/pulumi.ts'
import { previewKeys, writeStackFile } from '../preview-stack/stack-file.ts'
import { type Judged, sweep } from '../preview-stack/sweep.ts'
import { createCallProgram } from '../program-call/call-program.ts'
import { table } from '../terminal/table.ts'
import { harmless } from '../terminal/visible.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const HOUR_MS = 3_600_000
/** One week, the longest lifetime of a preview. */
const MAX_HOURS = 168

const Branch = z.string().min(1, 'name a branch').max(1024)
const Common = z.object({
  branch: Branch,
  json: z.boolean().default(false),
  secretsProvider: z.string().optional(),
})
const UpOptions = Common.extend({
  environment: z.string().regex(/^[a-z][a-z0-9]{1,7}$/, 'must be the name of a stack such as dev'),
  hours: z.coerce.number().int().min(1).max(MAX_HOURS),
})
const SweepOptions = z.object({
  dryRun: z.boolean().default(false),
  json: z.boolean().default(false),
  secretsProvider: z.string().optional(),
})

/** One preview stack for each branch. */
export function previewStackCommand(context: CliContext): Command {
  return new Command('preview-stack')
    .summary('Manage preview stacks, each a slice of a shared cluster for one branch')
    .description('Preview stacks, each a slice of a shared cluster for one branch: up, status, down, sweep.')
    .addCommand(upCommand(context))
    .addCommand(statusCommand(context))
    .addCommand(downCommand(context))
    .addCommand(sweepCommand(context))
}

const SECRETS = 'where secrets of the state are sealed, as Pulumi spells it (PULUMI_SECRETS_PROVIDER)'
const withBranch = (command: Command): Command =>
  command
    .requiredOption('--branch <name>', 'the branch; any name is taken')
    .option('--secrets-provider <url>', SECRETS)

function toolsOf({ terminal }: CliContext) {
  const { io } = terminal
  const toPerson = (chunk: string) => io.stderr.write(io.stderr.isTTY ? harmless(chunk) : chunk)
  return {
    folder: io.cwd,
    pulumi: createPulumi(createCallProgram(io), toPerson),
    secretsProvider(given: string | undefined) {
      const provider = given ?? io.env['PULUMI_SECRETS_PROVIDER']
      // CI passes an unset variable as an empty string. Pulumi would then encrypt secrets with a passphrase.
      if (provider === '') throw usageError('The secrets provider is empty.')
      return provider
    },
  }
}

function upCommand(context: CliContext): Command {
  const command = withBranch(
    newCommand({
      usage: 'up',
      about: 'Create or update the preview of a branch, and set when it expires.',
      example: 'agentweaver preview-stack up --branch fix/egress --hours 24',
    }),
  )
    .option('--environment <stack>', 'the stack whose cluster it is a slice of', 'dev')
    .option('--hours <n>', `how long it lives, 1 to ${MAX_HOURS}`, '72')
  command.action(async () => {
    const options = parseOptions(UpOptions, command)
    const { folder, pulumi, secretsProvider } = toolsOf(context)
    const { environment, branch } = options
    const slug = previewSlug(branch)
    const stack = previewStack(slug)
    const expires = new Date(Date.now() + options.hours * HOUR_MS)
    const keys = await previewKeys(folder, { environment, slug, branch, expires })
    const provider = secretsProvider(options.secretsProvider)
    await pulumi.select(stack, provider)
    await writeStackFile({ folder, stack, secretsProvider: provider }, keys)
    await pulumi.up(stack)
    const outputs = await pulumi.outputs(stack)
    if (options.json) context.terminal.json({ stack, slug, expires: keys['expires'], outputs })
    else context.terminal.print(`${stack}  until ${String(keys['expires'])}`)
    context.exit(EXIT.ok)
  })
  return command
}

function statusCommand(context: CliContext): Command {
  const command = withBranch(
    newCommand({
      usage: 'status',
      about: 'Show whether a branch has a preview, and when it expires.',
      example: 'agentweaver preview-stack status --branch fix/egress',
    }),
  ).addHelpText('after', '\nExit status: 0 it is there, 3 there is none.')
  command.action(async () => {
    const { branch, json } = parseOptions(Common, command)
    const { pulumi } = toolsOf(context)
    const slug = previewSlug(branch)
    const found = await statusOf(pulumi, previewStack(slug))
    if (json) context.terminal.json({ slug, ...found })
    else context.terminal.print(statusLine(found))
    context.exit(found.exists ? EXIT.ok : EXIT.notFound)
  })
  return command
}

type Status = Awaited<ReturnType<typeof statusOf>>

async function statusOf(pulumi: Pulumi, stack: string) {
  const isThere = (await pulumi.list()).some((one) => one.stack === stack)
  if (!isThere) return { exists: false, stack } as const
  const { resources, expires } = await pulumi.state(stack)
  const isExpired = expires !== undefined && expires.getTime() <= Date.now()
  const until = expires?.toISOString() ?? null
  return { exists: true, stack, resources, expires: until, isExpired } as const
}

function statusLine(status: Status): string {
  if (!status.exists) return `${status.stack}  is not there`
  const { stack, resources, expires, isExpired } = status
  const life = expires === null ? 'without an end' : `${isExpired ? 'expired' : 'until'} ${expires}`
  return `${stack}  ${resources} resources, ${life}`
}

function downCommand(context: CliContext): Command {
  const command = withBranch(
    newCommand({
      usage: 'down',
      about: 'Destroy the preview of a branch and its stack. Succeeds if there is none.',
      example: 'agentweaver preview-stack down --branch fix/egress',
    }),
  )
  command.action(async () => {
    const { branch, json, secretsProvider: given } = parseOptions(Common, command)
    const { folder, pulumi, secretsProvider } = toolsOf(context)
    const stack = previewStack(previewSlug(branch))
    const isThere = (await pulumi.list()).some((one) => one.stack === stack)
    if (isThere) {
      await writeStackFile({ folder, stack, secretsProvider: secretsProvider(given) }, {})
      await pulumi.destroy(stack)
    }
    if (json) context.terminal.json({ stack, destroyed: isThere })
    else context.terminal.print(`${stack}  ${isThere ? 'destroyed' : 'was not there'}`)
    context.exit(EXIT.ok)
  })
  return command
}

function sweepCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'sweep',
    about: 'Destroy the previews that have expired, and print for each what was done and why.',
    example: 'agentweaver preview-stack sweep --dry-run',
  })
    .option('--dry-run', 'destroy nothing')
    .option('--secrets-provider <url>', SECRETS)
    .addHelpText('after', '\nExit status: 0 all that was due is gone, 1 something could not be destroyed.')
  command.action(async () => {
    const options = parseOptions(SweepOptions, command)
    const { folder, pulumi, secretsProvider } = toolsOf(context)
    const provider = secretsProvider(options.secretsProvider)
    const judged = await sweep({
      pulumi,
      now: new Date(),
      maxHours: MAX_HOURS,
      isDryRun: options.dryRun,
      prepare: (stack) => writeStackFile({ folder, stack, secretsProvider: provider }, {}),
    })
    if (options.json) context.terminal.json({ dryRun: options.dryRun, stacks: judged })
    else context.terminal.print(sweepLines(judged, context))
    context.exit(judged.some(({ did }) => did === 'failed') ? EXIT.runFailed : EXIT.ok)
  })
  return command
}

const sweepLines = (judged: readonly Judged[], { terminal }: CliContext): string[] =>
  judged.length === 0
    ? ['there is no preview']
    : table(
        judged,
        [
          { title: 'STACK', value: ({ stack }) => stack },
          { title: 'DONE', value: ({ did }) => did },
          { title: 'WHY', value: ({ why }) => harmless(why.replaceAll('\n', ' ')) },
        ],
        terminal,
      )
