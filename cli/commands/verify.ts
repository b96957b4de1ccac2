import type { Command } from 'commander'
import * as z from 'zod'
import { readEnvironment } from '../capacity/read-environment.ts'
import { usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { visible } from '../terminal/visible.ts'
import { wrap } from '../terminal/wrap.ts'
import type { Verified } from '../verify/check.ts'
import { openCheckInputs } from '../verify/open-check-inputs.ts'
import type { Target } from '../verify/sandbox.ts'
import { CHECKS, verify } from '../verify/verify.ts'
import { GUTTER, row } from '../view/row.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const IDS = CHECKS.map(({ id }) => id)
const Endpoint = z
  .string()
  .regex(/^[A-Za-z0-9.-]+:\d{1,5}$/, 'must be <host>:<port>')
  .transform(
    (text): Target => ({ host: text.slice(0, text.lastIndexOf(':')), port: Number(text.split(':').at(-1)) }),
  )
  .refine(({ port }) => port > 0 && port < 65_536, 'must have a port from 1 to 65535')

const VerifyOptions = ServiceOptions.extend({
  env: z.string().min(1),
  only: z
    .string()
    .transform((text) => text.split(','))
    .refine((ids) => ids.every((id) => IDS.includes(id)), `must be of ${IDS.join(', ')}`)
    .optional(),
  strict: z.boolean().default(false),
  allowed: Endpoint.optional(),
  unlisted: Endpoint,
  claims: z.coerce.number().int().min(1).max(20),
  warmMs: z.coerce.number().positive().max(600_000),
})

/** Checks a cluster from outside and, through the service, from inside a sandbox. */
export function verifyCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'verify',
    about:
      'Check a cluster after "pulumi up": nodes, isolation, network rules, identities, and the time to get a warm sandbox. Each check passes, fails, or prints why it was not run.',
    example: 'agentweaver verify --env dev --url https://api.dev.example.com --strict',
  })
    .requiredOption('--env <name>', 'environments/<name>.json in this folder, or the path of such a file')
    .option('--only <checks>', `only these checks, separated by commas: ${IDS.join(', ')}`)
    .option('--strict', 'count a check that was not run as failed')
    .option(
      '--allowed <host:port>',
      'a destination that sandboxes may reach; default: the destinations in policies/agent/egress.yaml',
    )
    .option(
      '--unlisted <host:port>',
      'a reachable destination that sandboxes must not reach',
      'example.com:443',
    )
    .option('--claims <n>', 'how many warm sandboxes to request and time', '3')
    .option('--warm-ms <ms>', 'the highest median time that passes', '2000')
    .addHelpText(
      'after',
      '\nUses kubectl with KUBECONFIG for the cluster, and az for identities in Azure.\nExit status: 0 no check failed, 1 a check failed, or no check could be run.',
    )
  command.action(async () => {
    const options = parseOptions(VerifyOptions, command)
    const { terminal } = context
    const checks = CHECKS.filter(({ id }) => options.only?.includes(id) ?? true)
    if (checks.length === 0) throw usageError('No check is left to run.')
    const verified = await verifyAll(context, options, checks)
    const ok = isWell(verified, options.strict)
    if (options.json) terminal.json({ ok, environment: options.env, checks: verified })
    else terminal.print(linesOf(verified, context))
    context.exit(ok ? EXIT.ok : EXIT.runFailed)
  })
  return command
}

async function verifyAll(
  context: CliContext,
  options: z.infer<typeof VerifyOptions>,
  checks: typeof CHECKS,
): Promise<Verified[]> {
  const { terminal } = context
  await using inputs = await openCheckInputs({
    ...options,
    io: terminal.io,
    environment: readEnvironment(options.env, terminal.io.cwd),
    connect: () => openConnection(context, options),
  })
  const verified = await verify(inputs, checks, ({ id }) => terminal.progress.waitFor(`checking ${id}`))
  terminal.progress.clear()
  return verified
}

/** A result with no executed check counts as a failure. */
function isWell(verified: readonly Verified[], isStrict: boolean): boolean {
  const states = verified.map(({ state }) => state)
  if (states.includes('fail') || (isStrict && states.includes('not run'))) return false
  return states.includes('pass')
}

const TONE = { pass: 'green', fail: 'red', 'not run': 'yellow' } as const
const WORD_WIDTH = 9

function linesOf(verified: readonly Verified[], { terminal }: CliContext): string[] {
  const { paint, width } = terminal
  return verified.flatMap(({ check, state, detail }) => {
    const [first = '', ...rest] = wrap(visible(detail), width - GUTTER - WORD_WIDTH)
    return [
      ...row(terminal, check, paint[TONE[state]](state.padEnd(WORD_WIDTH)) + first),
      ...rest.map((line) => ' '.repeat(GUTTER + WORD_WIDTH) + line),
    ]
  })
}
