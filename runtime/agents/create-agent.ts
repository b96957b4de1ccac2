import type { AgentConfig } from '../../contracts/configure.ts'
import { SandboxError } from '../kit/errors.ts'
import type { AgentDeps, AgentSession } from './agent.ts'
import { createScriptedAgent } from './scripted/scripted-agent.ts'

/** Makes the agent of a run. Throws `configure_failed` or a credential's error where it cannot be set up. */
export async function createAgent(config: AgentConfig, deps: AgentDeps): Promise<AgentSession> {
  switch (config.kind) {
    case 'scripted':
      return createScriptedAgent(config.plan, deps)
    case 'copilot':
    case 'openaiCompatible':
    case 'foundry': {
      // Only where it is wanted: the agent SDK costs a standby AgentHost memory and file opens.
      const { createCopilotAgent } = await import('./copilot/copilot-agent.ts')
      return createCopilotAgent(config, deps)
    }
    case 'none':
      throw new SandboxError('configure_failed', 'A sandbox of kind none has no agent to create')
  }
}
