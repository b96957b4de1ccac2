import { REACH_KEYS } from '../../contracts/agent-host-env.ts'

/**
 * The variables that the agent runtime needs to reach its servers. Nothing else is passed on, because the parent process
 * holds the credential.
 */
export const reachEnv = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    REACH_KEYS.flatMap((key) => {
      const value = env[key]
      return value ? [[key, value]] : []
    }),
  )
