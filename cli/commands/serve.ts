import type { Command } from 'commander'
import * as z from 'zod'
import { serve } from '../service/serve.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const ServeOptions = z.object({ json: z.boolean().default(false) })

/** Starts the service. In a clone, `npm start` does the same. */
export function serveCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'serve',
    about:
      'Start the service on this machine and stay in the foreground. Programs reach it at the URL that it prints, commands over its socket. "agentweaver config" lists its settings, which are environment variables.',
    example: 'agentweaver serve\nAGENTWEAVER_PORT=9000 agentweaver serve --json',
  }).addHelpText(
    'after',
    '\nCtrl-C stops it.\nExit status: 0 stopped, 78 the settings are wrong, 1 it could not start or go on.',
  )
  command.action(async () => {
    const { json } = parseOptions(ServeOptions, command)
    const { env, cwd } = context.terminal.io
    context.exit(await serve({ env, cwd, json }))
  })
  return command
}
