import type { Found } from './found.ts'

export interface Settings {
  readonly found: readonly Found[]
  /** Hosts of the project's registries that the operator's egress list has. */
  readonly listed: readonly string[]
  readonly notListed: readonly string[]
}

/** The text of a settings file. It has only fixed text, known command lines and checked host names. */
export function settingsText({ found, listed, notListed }: Settings): string {
  const lines = [
    '# What agents may do in this folder, written by `agentweaver init`. It can only restrict what the operator of the',
    '# service allows. The first run in this folder puts it in force. Later changes count when you accept them:',
    '#',
    '#   agentweaver trust',
    '#',
    ...projectLines(found),
    '',
    '# Agents may run commands in their sandbox. false: they can only read and edit files.',
    'shell_enabled: true',
    '',
    '# false: dangerous commands wait for your approval, others run. true: every command waits.',
    'require_approval_for_all_shell: false',
    '',
    '# More commands that wait for your approval. Deleting, publishing and force pushes do so already.',
    '# destructive_command_patterns:',
    '#   - make deploy',
    '',
    '# Commands have no network unless the operator permits it and you start the run with --network.',
    '# false: not even then.',
    '# network_enabled: false',
    '',
    ...hostLines(listed, notListed),
    '',
    '# Commands that prepare the folder before the first turn of each run, with the hosts that the egress list allows to them.',
    '# A command that fails ends the run.',
    '# setup_commands:',
    `#   - ${found[0]?.commands[0] ?? 'make deps'}`,
    '',
    '# Personal data in the output of commands is hidden.',
    'redact_pii: true',
    '',
    '# Limits of every run.',
    '# budgets: { tokens: 2000000, wall_seconds: 7200 }',
    '',
  ]
  return lines.join('\n')
}

function projectLines(found: readonly Found[]): string[] {
  if (found.length === 0)
    return ['# No kind of project was recognised. Tell the agent in its task how to test its work.']
  const commands = [...new Set(found.flatMap((one) => one.commands))]
  return [
    `# Found: ${found.map(({ name }) => name).join(', ')}. Commands for the task of an agent, or for a sandbox:`,
    '# agentweaver sandbox exec ID -- COMMAND. Nothing here runs them.',
    '#',
    ...commands.map((command) => `#   ${command}`),
  ]
}

function hostLines(listed: readonly string[], notListed: readonly string[]): string[] {
  const intro = "# With the network on, commands reach only these hosts of the operator's egress list."
  return [
    ...(listed.length === 0
      ? [
          "# With the network on, commands reach all hosts of the operator's egress list, or only those named here.",
          '# egress_hosts: []',
        ]
      : [intro, 'egress_hosts:', ...listed.map((host) => `  - ${host}`)]),
    ...(notListed.length === 0
      ? []
      : [
          "# The project uses these hosts too. The operator's egress list does not have them, so no run can reach them.",
          ...notListed.map((host) => `#   - ${host}`),
        ]),
  ]
}
