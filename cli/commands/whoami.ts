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
    about:
      'Show the owner and the role of your key or sign-in, and when the key or the access token expires. The command line renews the access token of a sign-in by itself.',
    example: 'agentweaver whoami\nagentweaver whoami --url https://agentweaver.example.com',
  })
  command.action(async () => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const me = await connection.client.readMe()
    if (options.json) terminal.json(me)
    else {
      const { owner, role, keyId, issuer, expiresAt } = me
      const how: readonly [string, string] =
        keyId === undefined ? ['signed in', `at ${visible(issuer ?? 'an issuer')}`] : ['key', keyId]
      const entries = [
        ['owner', visible(owner)],
        ['role', role],
        how,
        ['expires', expiresAt ?? 'never'],
      ] as const
      terminal.print(facts(entries, terminal.paint))
    }
    context.exit(EXIT.ok)
  })
  return command
}
