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
      'See the main job on this machine: a sandboxed agent repairs a small project, and is refused what no agent should get. Needs no account, no model, no configuration; leaves nothing behind.',
    example: 'agentweaver demo\nagentweaver demo --yes --json | jq -r .event.type',
  })
    .option('-y, --yes', 'approve the deleting command without asking')
    .option(
      '--model <name>',
      'give the task to a real model: OPENAI_BASE_URL and OPENAI_API_KEY say where it is',
    )
    .option('--cluster', 'in a pod of the cluster that KUBECONFIG names; see docs/local-cluster.md')
    .addHelpText('after', '\nExit status: 0 only if every single thing really happened; 130 after Ctrl-C.')
  command.action(async () => {
    context.exit(await playDemo(context.terminal, parseOptions(DemoOptions, command)))
  })
  return command
}
