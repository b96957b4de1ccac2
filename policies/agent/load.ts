import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { z } from 'zod'
import type { SandboxSettings } from '../../contracts/policy.ts'
import { ApprovalsFile, GovernanceFile } from './schema.ts'
import { parseYaml } from './yaml.ts'

/** The texts of the two policy files, read from this folder or embedded in a bundle. */
export interface AgentPolicyTexts {
  readonly governance: string
  readonly approvals: string
}

/** The permissions of an agent: tools by name, files that contain secrets, commands that need approval. */
export interface AgentPolicy {
  /** SHA-256 over both texts, in hex. */
  readonly digest: string
  readonly rules: GovernanceFile['rules']
  readonly secretFiles: GovernanceFile['secretFiles']
  readonly destructive: ApprovalsFile['destructive']
  readonly network: ApprovalsFile['network']
  readonly plainOutput: ApprovalsFile['plainOutput']
  readonly filters: ApprovalsFile['filters']
}

/** Parses the policy. Throws with file, line and reason, so that no process starts with an invalid policy. */
export function loadAgentPolicy(texts: AgentPolicyTexts): AgentPolicy {
  const governance = parsePolicyFile('governance.yaml', texts.governance, GovernanceFile)
  const approvals = parsePolicyFile('approvals.yaml', texts.approvals, ApprovalsFile)
  return Object.freeze({
    digest: sha256(JSON.stringify([texts.governance, texts.approvals])),
    rules: governance.rules,
    secretFiles: governance.secretFiles,
    destructive: approvals.destructive,
    network: approvals.network,
    plainOutput: approvals.plainOutput,
    filters: approvals.filters,
  })
}

/** Reads the policy files of this folder. */
export const readAgentPolicy = (): AgentPolicy => loadAgentPolicy(readAgentPolicyTexts())

/** Returns the texts only: a bundled build embeds them and calls `loadAgentPolicy`. */
export const readAgentPolicyTexts = (): AgentPolicyTexts => ({
  governance: readFileSync(new URL('./governance.yaml', import.meta.url), 'utf8'),
  approvals: readFileSync(new URL('./approvals.yaml', import.meta.url), 'utf8'),
})

/** The version that decisions and audit records contain. It covers the policy files and the settings of the run. */
export function policyVersion(policy: AgentPolicy, settings: SandboxSettings): string {
  const sorted = Object.entries(settings).sort(([a], [b]) => (a < b ? -1 : 1))
  return sha256(JSON.stringify([policy.digest, sorted]))
}

const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex')

function parsePolicyFile<T extends z.ZodType>(name: string, text: string, schema: T): z.infer<T> {
  const parsed = parseYaml(text, schema)
  if (parsed.ok) return parsed.value
  throw new Error(`policies/agent/${name}, line ${parsed.line}: ${parsed.reason}`)
}
