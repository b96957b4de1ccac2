import type { Command } from 'commander'
import { examine } from '../doctor/examine.ts'
import { findingLines } from '../doctor/finding.ts'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import {
  type CliContext,
  connectionFlags,
  newServiceCommand,
  parseOptions,
  ServiceOptions,
} from './command.ts'

export function doctorCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'doctor',
    about: 'Check what runs need here: each way to isolate commands, the store, the service, a model.',
    example: 'agentweaver doctor',
  }).addHelpText('after', '\nExit status: 0 if runs can work here, 1 if something must be changed first.')
  command.action(async () => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    terminal.progress.waitFor('trying each kind of isolation')
    const findings = await examine(readClientConfig(connectionFlags(options), terminal.io), terminal.io.env)
    terminal.progress.clear()
    const isWell = findings.every(({ state }) => state !== 'fault')
    if (options.json) terminal.json({ ok: isWell, findings })
    else terminal.print(findingLines(terminal, findings))
    context.exit(isWell ? EXIT.ok : EXIT.runFailed)
  })
  return command
}
