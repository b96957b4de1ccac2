import type { Command } from 'commander'
import * as z from 'zod'
import type { StartRunInput } from '../../contracts/api.ts'
import { usageError } from '../cli-error.ts'
import { collectWords } from './pairs.ts'

/** Options for the network of commands in a sandbox. */
export const NetworkOptions = {
  network: z.boolean().optional(),
  egressHost: z.array(z.string()).optional(),
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

type Network = { readonly network?: boolean | undefined; readonly egressHost?: string[] | undefined }

/** Naming hosts needs the network, so it asks for it. */
export function policyOf({ network, egressHost }: Network): Pick<StartRunInput, 'policy'> {
  if (network === false && egressHost)
    throw usageError(
      '--egress-host names hosts, and --no-network turns the network off. Give only one of them.',
    )
  const enabled = network ?? (egressHost ? true : undefined)
  if (enabled === undefined) return {}
  return { policy: { network_enabled: enabled, ...(egressHost && { egress_hosts: egressHost }) } }
}
