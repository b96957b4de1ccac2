import { AGENT_HOST_ENV_PREFIX, AgentHostEnv } from '../../contracts/agent-host-env.ts'
import { type EnvSource, parseEnv } from '../kit/parse-env.ts'

/** Parses AgentHost's environment; every problem is named at once. */
export const parseAgentHostConfig = (env: EnvSource): AgentHostEnv =>
  parseEnv(AgentHostEnv, env, { prefix: AGENT_HOST_ENV_PREFIX })
