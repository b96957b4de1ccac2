import { readFileSync } from 'node:fs'
import type { SandboxKind } from '../../../contracts/names.ts'
import { parseYaml } from '../yaml.ts'
import { type Destination, EgressFile } from './schema.ts'

/** Where sandboxes may connect to, by class, with placeholders as they are written. */
export interface EgressPolicy {
  readonly classes: Readonly<Record<SandboxKind, readonly Destination[]>>
}

/** What is wrong with the file, and where, for a person. */
export class EgressPolicyError extends Error {}

const FILE = new URL('../egress.yaml', import.meta.url)

/** Parses the policy; throws an `EgressPolicyError` with file, line and reason, so that nothing is generated from what is not understood. */
export function loadEgressPolicy(text: string): EgressPolicy {
  const parsed = parseYaml(text, EgressFile)
  if (parsed.ok) return Object.freeze({ classes: parsed.value.classes })
  throw new EgressPolicyError(`policies/agent/egress.yaml, line ${parsed.line}: ${parsed.reason}`)
}

/** Reads the policy file that lies beside this folder. */
export const readEgressPolicy = (): EgressPolicy => loadEgressPolicy(readEgressPolicyText())

/** The text alone: a bundler's build embeds it and calls `loadEgressPolicy`. */
export const readEgressPolicyText = (): string => readFileSync(FILE, 'utf8')
