import type { Command } from 'commander'
import * as z from 'zod'
import { playDemo } from '../demo/play.ts'
import { type CliContext, newCommand, parseOptions } from './command.ts'

const DemoOptions = z.object({
  json: z.boolean().default(false),
  yes: z.boolean().default(false),
  model: z.string().min(1).optional(),
  cluster: z.boolean().default(false),
})

export function demoCommand(context: CliContext): Command {
  const command = newCommand({
    usage: 'demo',
    about:
      'Watch a sandboxed agent repair a small project on this machine, and see what the sandbox refuses it. Needs no account, model or configuration, and leaves nothing behind.',
    example: 'agentweaver demo\nagentweaver demo --yes --json | jq -r .event.type',
  })
    .option('-y, --yes', 'approve the command that deletes files without asking')
    .option('--model <name>', 'use a real model of the endpoint in OPENAI_BASE_URL, with OPENAI_API_KEY')
    .option('--cluster', 'run in a pod of the cluster in KUBECONFIG; see docs/local-cluster.md')
    .addHelpText('after', '\nExit status: 0 if every check passed, 1 if one failed, 130 after Ctrl-C.')
  command.action(async () => {
    context.exit(await playDemo(context.terminal, parseOptions(DemoOptions, command)))
  })
  return command
}
