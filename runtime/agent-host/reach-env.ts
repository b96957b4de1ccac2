import { REACH_KEYS } from '../../contracts/agent-host-env.ts'

/**
 * What a process needs to reach its servers, and no more: the agent runtime is a child of the process that holds the
 * credential, and everything else of that environment is withheld from it.
 */
export const reachEnv = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    REACH_KEYS.flatMap((key) => {
      const value = env[key]
      return value ? [[key, value]] : []
    }),
  )
