import type { AgentConfig } from '../../contracts/configure.ts'
import { SandboxError } from '../kit/errors.ts'
import type { AgentDeps, AgentSession } from './agent.ts'
import { createScriptedAgent } from './scripted/scripted-agent.ts'

/** Creates the agent of a run. Throws `configure_failed` or a credential error. */
export async function createAgent(config: AgentConfig, deps: AgentDeps): Promise<AgentSession> {
  switch (config.kind) {
    case 'scripted':
      return createScriptedAgent(config.plan, deps)
    case 'copilot':
    case 'openaiCompatible':
    case 'foundry': {
      // Imported on demand, because the agent SDK costs a standby AgentHost memory and open files.
      const { createCopilotAgent } = await import('./copilot/copilot-agent.ts')
      return createCopilotAgent(config, deps)
    }
    case 'none':
      throw new SandboxError('configure_failed', 'A sandbox of kind none has no agent to create')
  }
}
