import type { Command } from 'commander'
import * as z from 'zod'
import { usageError } from '../cli-error.ts'
import { examine } from '../doctor/examine.ts'
import { type Examined, examineCluster } from '../doctor/examine-cluster.ts'
import { findingLines } from '../doctor/finding.ts'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import {
  type CliContext,
  connectionFlags,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'

const DoctorOptions = ServiceOptions.extend({
  cluster: z.boolean().default(false),
  timeout: z.coerce.number().int().min(1).max(3600).optional(),
})
type DoctorOptions = z.infer<typeof DoctorOptions>

/** A sandbox of a cluster without a warm pool starts within two minutes. */
const TIMEOUT_SECONDS = 180

export function doctorCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'doctor',
    about:
      'Check what runs need here: each way to isolate commands, the store, the service, a model. With --cluster, check the service that your commands use instead: sign-in, health, a sandbox, and one short run with each of its models.',
    example:
      'agentweaver doctor\nagentweaver doctor --cluster --url https://agentweaver.example.com --timeout 60',
  })
    .option('--cluster', 'check the service at the URL, with a run for each model, which may cost money')
    .option('--timeout <seconds>', `with --cluster: how long a run may take (default: ${TIMEOUT_SECONDS})`)
    .addHelpText(
      'after',
      '\nCtrl-C ends the run that --cluster has started.\nExit status: 0 if runs can work, 1 if something must be changed first, 130 if interrupted.',
    )
  command.action(async () => {
    const options = parseOptions(DoctorOptions, command)
    if (options.timeout !== undefined && !options.cluster)
      throw usageError('--timeout is for the runs of --cluster.')
    context.exit(
      await (options.cluster ? doctorOfCluster(context, options) : doctorOfMachine(context, options)),
    )
  })
  return command
}

async function doctorOfMachine(context: CliContext, options: DoctorOptions): Promise<number> {
  const { terminal } = context
  terminal.progress.waitFor('trying each kind of isolation')
  const findings = await examine(readClientConfig(connectionFlags(options), terminal.io), terminal.io.env)
  return report(context, options, { findings })
}

async function doctorOfCluster(context: CliContext, options: DoctorOptions): Promise<number> {
  const { terminal } = context
  await using connection = await openConnection(context, options)
  const stop = new AbortController()
  using _interrupts = onInterrupt(() => {
    terminal.note('Ending the run that was started.')
    stop.abort()
  })
  const examined = await examineCluster({
    client: connection.client,
    suffix: serviceSuffix(options),
    timeoutMs: (options.timeout ?? TIMEOUT_SECONDS) * 1000,
    signal: stop.signal,
    onStep: (what) => terminal.progress.waitFor(what),
  })
  const status = report(context, options, examined)
  return stop.signal.aborted ? EXIT.interrupted : status
}

function report(
  { terminal }: CliContext,
  { json }: DoctorOptions,
  { findings, ...more }: Pick<Examined, 'findings'> & Partial<Examined>,
): number {
  terminal.progress.clear()
  const isWell = findings.every(({ state }) => state !== 'fault')
  if (json) terminal.json({ ok: isWell, findings, ...more })
  else terminal.print(findingLines(terminal, findings))
  return isWell ? EXIT.ok : EXIT.runFailed
}
