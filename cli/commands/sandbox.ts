import { Command } from 'commander'
import { EXIT } from '../exit-status.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'
import { execCommand } from './exec.ts'
import { ListOptions, runTable } from './runs.ts'
import { createCommand } from './sandbox-create.ts'

function listCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'ls',
    about: 'List your sandboxes, newest first.',
    example: 'agentweaver sandbox ls',
  })
    .option('--limit <n>', 'how many (1 to 200)', '20')
    .option('--after <token>', 'the next page; the previous page prints the token')
  command.action(async () => {
    const options = parseOptions(ListOptions, command)
    const { limit, after } = options
    await using connection = await openConnection(context, options, { whenAbsent: 'open' })
    const page = await connection.client.listSandboxes({ limit, ...(after === undefined ? {} : { after }) })
    if (options.json) context.terminal.json(page)
    else {
      context.terminal.print(runTable(page.items, context, 'WORKSPACE'))
      if (page.next)
        context.terminal.note(`More: agentweaver sandbox ls --limit ${limit} --after ${page.next}`)
    }
    context.exit(EXIT.ok)
  })
  return command
}

function removeCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'rm',
    about: 'Destroy sandboxes and everything in them. A folder that was given with --workspace stays.',
    example: 'agentweaver sandbox rm sbx_0197f6f2…',
  }).argument('<sandbox...>', 'ids of the sandboxes')
  command.action(async (ids: string[]) => {
    const options = parseOptions(ServiceOptions, command)
    const { terminal } = context
    await using connection = await openConnection(context, options)
    for (const id of ids) {
      terminal.progress.waitFor(`destroying ${id}`)
      await connection.client.destroySandbox(id)
      if (options.json) terminal.json({ id, state: 'destroyed' })
      else terminal.print(id)
    }
    context.exit(EXIT.ok)
  })
  return command
}

export function sandboxCommand(context: CliContext): Command {
  return new Command('sandbox')
    .summary('Create, list, use and destroy sandboxes without an agent')
    .description('Create, list, use and destroy sandboxes without an agent.')
    .addCommand(createCommand(context))
    .addCommand(listCommand(context))
    .addCommand(execCommand(context))
    .addCommand(removeCommand(context))
}
