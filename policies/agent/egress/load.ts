import { readFileSync } from 'node:fs'
import type { SandboxKind } from '../../../contracts/names.ts'
import { parseYaml } from '../yaml.ts'
import { type Destination, EgressFile } from './schema.ts'

/** Where sandboxes may connect to, by class, with placeholders as they are written. */
export interface EgressPolicy {
  readonly classes: Readonly<Record<SandboxKind, readonly Destination[]>>
}

/** The message contains the file, the line and the reason. */
export class EgressPolicyError extends Error {}

const FILE = new URL('../egress.yaml', import.meta.url)

/**
 * Parses the policy. Throws an `EgressPolicyError` with file, line and reason, so that no output is generated from an
 * invalid policy.
 */
export function loadEgressPolicy(text: string, file = 'policies/agent/egress.yaml'): EgressPolicy {
  const parsed = parseYaml(text, EgressFile)
  if (parsed.ok) return Object.freeze({ classes: parsed.value.classes })
  throw new EgressPolicyError(`${file}, line ${parsed.line}: ${parsed.reason}`)
}

/** Reads `policies/agent/egress.yaml`. */
export const readEgressPolicy = (): EgressPolicy => loadEgressPolicy(readEgressPolicyText())

/** Returns the text only: a bundled build embeds it and calls `loadEgressPolicy`. */
export const readEgressPolicyText = (): string => readFileSync(FILE, 'utf8')
