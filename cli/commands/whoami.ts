import type { Command } from 'commander'
import { EXIT } from '../exit-status.ts'
import { facts } from '../terminal/table.ts'
import { visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

export function whoamiCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'whoami',
    about: 'Show the owner and the role of your key or token, and when it expires.',
    example: 'agentweaver whoami\nagentweaver whoami --url https://agentweaver.example.com',
  })
  command.action(async () => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const me = await connection.client.readMe()
    if (options.json) terminal.json(me)
    else {
      const { owner, role, keyId, expiresAt } = me
      const entries = [
        ['owner', visible(owner)],
        ['role', role],
        ['key', keyId ?? '(access token)'],
        ['expires', expiresAt ?? 'never'],
      ] as const
      terminal.print(facts(entries, terminal.paint))
    }
    context.exit(EXIT.ok)
  })
  return command
}
