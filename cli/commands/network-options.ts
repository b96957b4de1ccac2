import type { Command } from 'commander'
import * as z from 'zod'
import type { StartRunInput } from '../../contracts/api.ts'
import { usageError } from '../cli-error.ts'
import { collectWords } from './pairs.ts'

/** Options for the network of commands in a sandbox, and for the commands that prepare it. */
export const NetworkOptions = {
  network: z.boolean().optional(),
  egressHost: z.array(z.string()).optional(),
  setup: z.union([z.literal(false), z.array(z.string())]).optional(),
}

export const networkOptions = (command: Command): Command =>
  command
    .option('--network', 'require that commands have network access, to the destinations of the egress list')
    .option('--no-network', 'no network access for commands, even if the settings allow it')
    .option(
      '--egress-host <host>',
      'a host of the egress list that commands may reach, and no other; may be repeated; needs network access',
      collectWords,
    )
    .option(
      '--setup <command>',
      'a command that prepares the workspace before the first turn, instead of setup_commands of the settings; may be repeated',
      collectCommands,
    )
    .option('--no-setup', 'do not run the setup_commands of the settings')

/** A command may contain commas and spaces. After `--no-setup`, the value is false. */
const collectCommands = (command: string, before: unknown): string[] => [
  ...(Array.isArray(before) ? before : []),
  command,
]

type Network = {
  readonly network?: boolean | undefined
  readonly egressHost?: string[] | undefined
  readonly setup?: false | string[] | undefined
}

/** Naming hosts needs the network, so it asks for it. */
export function policyOf({ network, egressHost, setup }: Network): Pick<StartRunInput, 'policy'> {
  if (network === false && egressHost)
    throw usageError(
      '--egress-host names hosts, and --no-network turns the network off. Give only one of them.',
    )
  const enabled = network ?? (egressHost ? true : undefined)
  const policy = {
    ...(enabled !== undefined && { network_enabled: enabled }),
    ...(egressHost && { egress_hosts: egressHost }),
    ...(setup !== undefined && { setup_commands: setup === false ? [] : setup }),
  }
  return Object.keys(policy).length === 0 ? {} : { policy }
}
