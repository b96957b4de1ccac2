import type { Command } from 'commander'
import { EXIT } from '../exit-status.ts'
import { readClientConfig } from '../service/client-config.ts'
import { removeLogin } from '../service/logins.ts'
import { originOf } from '../service/service-url.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'
import { LoginOptions } from './login.ts'

export function logoutCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'logout',
    about: 'Delete the saved API key for a service at a URL. The key itself stays valid.',
    example: 'agentweaver logout --url https://agentweaver.example.com',
  }).requiredOption('--url <url>', 'the URL of the service, as in "agentweaver login"')
  command.action(() => {
    const { url: given, json } = parseOptions(LoginOptions, command)
    const { terminal } = context
    const url = originOf({ value: given, from: '--url' })
    const isRemoved = removeLogin(readClientConfig({}, terminal.io).configDir, url)
    if (json) terminal.json({ url, removed: isRemoved })
    else
      terminal.print(isRemoved ? `The saved key for ${url} is deleted.` : `There is no saved key for ${url}.`)
    context.exit(EXIT.ok)
  })
  return command
}
