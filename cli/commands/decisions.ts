import type { Command } from 'commander'
import * as z from 'zod'
import type { Approval } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
} from './command.ts'

const SHELL_TOOL = 'run_command'
const SCOPES = ['once', 'run'] as const

const isNamed = (request: string) => (approval: Approval) =>
  approval.requestId === request || approval.commandHash === request

/** Finds the pending approval by its request id or by the hash of its command. */
async function findApproval(client: Client, runId: string, request: string): Promise<Approval> {
  const { items } = await client.listApprovals(runId)
  const named = items.filter(isNamed(request))
  const pending = named.filter(({ state }) => state === 'pending')
  if (pending.length === 1 && pending[0]) return pending[0]
  if (pending.length > 1) {
    const ids = pending.map(({ requestId }) => `  ${requestId}`)
    throw usageError(['Several requests are for this command. Name one of them:', ...ids].join('\n'))
  }
  const settled = named[0]
  throw settled
    ? new CliError(`The request is not open any more: ${settled.state}.`, { status: EXIT.refused })
    : new CliError(`The run has no request ${request}.`, {
        status: EXIT.notFound,
        hint: `See what it waits for with "agentweaver show ${runId}".`,
      })
}

function report({ terminal, exit }: CliContext, json: boolean, approval: Approval): void {
  if (json) terminal.json(approval)
  else terminal.print(`${approval.requestId}  ${approval.state}`)
  exit(EXIT.ok)
}

export function approveCommand(context: CliContext): Command {
  const Options = ServiceOptions.extend({ scope: z.enum(SCOPES).default('once') })
  const command = newServiceCommand({
    usage: 'approve',
    about:
      'Approve a request of a run. The approval is for this request only; with --scope run, also for later identical requests of the run.',
    example: 'agentweaver approve run_0197f6f2… 5f1c6a0b93d2e477',
  })
    .argument('<run>', 'id of the run')
    .argument(
      '<request>',
      'id of the request, or the hash of its command (both are in "agentweaver show RUN")',
    )
    .option(
      '--scope <scope>',
      'once: this request only; run: also later identical requests of the run',
      'once',
    )
  command.action(async (runId: string, request: string) => {
    const options = parseOptions(Options, command)
    await using connection = await openConnection(context, options)
    const { client } = connection
    const { tool, requestId } = await findApproval(client, runId, request)
    const body = { requestId, scope: options.scope }
    const approval = tool === SHELL_TOOL ? client.approveShell(runId, body) : client.approveTool(runId, body)
    report(context, options.json, await approval)
  })
  return command
}

export function denyCommand(context: CliContext): Command {
  const Options = ServiceOptions.extend({ reason: z.string().max(4000).optional() })
  const command = newServiceCommand({
    usage: 'deny',
    about: 'Deny a request of a run. The agent gets the reason and continues without it.',
    example: 'agentweaver deny run_0197f6f2… 5f1c6a0b93d2e477 --reason "keep the build folder"',
  })
    .argument('<run>', 'id of the run')
    .argument(
      '<request>',
      'id of the request, or the hash of its command (both are in "agentweaver show RUN")',
    )
    .option('--reason <text>', 'the reason that the agent gets')
  command.action(async (runId: string, request: string) => {
    const options = parseOptions(Options, command)
    await using connection = await openConnection(context, options)
    const { client } = connection
    const { tool, requestId } = await findApproval(client, runId, request)
    const body = { requestId, ...(options.reason === undefined ? {} : { reason: options.reason }) }
    const approval = tool === SHELL_TOOL ? client.denyShell(runId, body) : client.denyTool(runId, body)
    report(context, options.json, await approval)
  })
  return command
}

export function answerCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'answer',
    about: 'Answer a question that a run asks.',
    example: 'agentweaver answer run_0197f6f2… q_01 "use the second one"',
  })
    .argument('<run>', 'id of the run')
    .argument('<request>', 'id of the question')
    .argument('<text>', 'the answer')
  command.action(async (runId: string, requestId: string, answer: string) => {
    const options = parseOptions(ServiceOptions, command)
    await using connection = await openConnection(context, options)
    await connection.client.answerQuestion(runId, { requestId, answer })
    if (options.json) context.terminal.json({ runId, requestId, state: 'answered' })
    else context.terminal.print(`${requestId}  answered`)
    context.exit(EXIT.ok)
  })
  return command
}
