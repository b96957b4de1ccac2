import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { ArmResource, ArmTemplate } from '../../infra/state/arm.ts'
import { parseStateConfig, type StateConfig } from '../../infra/state/state-config.ts'
import { stateTemplate } from '../../infra/state/state-template.ts'

export const ROOT = resolve(import.meta.dirname, '../..')
export const stateFileOf = (environment: string) => join(ROOT, `infra/state/examples/${environment}.json`)

/** The example of an environment. */
export function stateConfigOf(environment: string): StateConfig {
  const parsed = parseStateConfig(readFileSync(stateFileOf(environment), 'utf8'))
  if ('problems' in parsed) throw new Error(parsed.problems.join('\n'))
  return parsed.config
}

export const nested = (resource: ArmResource) => resource.properties['template'] as ArmTemplate | undefined
/** A template and those in it. */
export function templatesOf(template: ArmTemplate): ArmTemplate[] {
  return [template, ...template.resources.flatMap((one) => inside(nested(one)))]
}
const inside = (template: ArmTemplate | undefined) => (template ? templatesOf(template) : [])
export const resourcesOf = (config: StateConfig) =>
  templatesOf(stateTemplate(config)).flatMap(({ resources }) => resources)
export const byType = (config: StateConfig, type: string) =>
  resourcesOf(config).filter((one) => one.type === type)
