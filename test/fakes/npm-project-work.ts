import type { PlanStep } from '../../contracts/agents.ts'
import { type ModelReply, type ModelRequest, textOf } from './model-server.ts'

const PUSH = 'git push -q origin "HEAD:refs/heads/${AGENTWEAVER_BRANCH_PREFIX}work"'

/** The file that holds the value that `searchFor` looks for. */
export const CONTROL = '/tmp/control'

/**
 * Lists the files, environments and arguments with a value: the control file, and no other if the value is not there. The value
 * is in two parts in the command itself.
 */
const searchFor = (value: string) =>
  `printf '%s%s' ${value.slice(0, 20)} ${value.slice(20)} > ${CONTROL}; grep -rlF -f ${CONTROL} /tmp . "$HOME" /etc /run /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | sort -u`

/** The whole job of a developer on an npm project: install, test, change, push. At its end it looks for the token. */
const commandsWith = (token: string) => [
  'npm ci',
  'npm test',
  `echo more >> README && git commit -qam work && ${PUSH}`,
  searchFor(token),
]

const call = (name: string, args: Record<string, unknown>) => ({ name, arguments: args })

/** The plan of a scripted agent that does the job. It ends with the first step that fails. */
export function planOfProject(token: string): PlanStep[] {
  const steps = commandsWith(token)
  return steps.map((command) => ({
    kind: 'tool',
    tool: 'run_command',
    arguments: { command },
    required: true,
  }))
}

/** A model that does the job a command at a time, and reports the first command that failed, with its output. */
export function workOnProject(token: string) {
  const commands = commandsWith(token)
  return ({ messages }: Pick<ModelRequest, 'messages'>): ModelReply => {
    const results = messages.filter(({ role }) => role === 'tool').map(textOf)
    const failed = results.find((text) => /^Exit code [1-9]/.test(text))
    const command = failed ? undefined : commands[results.length]
    const isReported = results.at(-1)?.startsWith('Exit code') === false
    if (command) return { toolCalls: [call('run_command', { command })] }
    if (isReported) return { text: 'Done.' }
    const outcome = failed ? { outcome: 'failed', summary: failed } : { outcome: 'succeeded' }
    return { toolCalls: [call('report_outcome', outcome)] }
  }
}
