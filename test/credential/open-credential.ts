import type { Credential } from '../../contracts/configure.ts'
import { openRunCredential } from '../../runtime/agent-host/credential/run-credential.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { type Azure, aSecretName } from './azure-rig.ts'

export const NAME = aSecretName()

export interface OpenOptions {
  readonly credential?: Credential
  /** @default more than a busy machine needs */
  readonly budgetMs?: number
  readonly now?: () => number
}

/** Opens a run's credential as AgentHost does, and keeps its log. */
export function openCredential({ settings }: Pick<Azure, 'settings'>, options: OpenOptions = {}) {
  const values: string[] = []
  const said: string[] = []
  const { credential = { kind: 'keyVault', secretName: NAME }, ...more } = options
  const opened = openRunCredential(
    { credential },
    {
      azure: settings,
      onValue: (value) => void values.push(value),
      log: createLog({ level: 'debug', write: (line) => void said.push(line) }),
      budgetMs: 120_000,
      ...more,
    },
  )
  return { opened, values, said, token: () => opened.then((credential) => credential.fetch()) }
}
