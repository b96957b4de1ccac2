import { AGENT_HOST_ENV_PREFIX, AgentHostEnv } from '../../contracts/agent-host-env.ts'
import { type EnvSource, parseEnv } from '../kit/parse-env.ts'

/** Parses the environment. Throws one error that lists every problem. */
export const parseAgentHostConfig = (env: EnvSource): AgentHostEnv =>
  parseEnv(AgentHostEnv, env, { prefix: AGENT_HOST_ENV_PREFIX })
