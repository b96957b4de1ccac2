import {
  type Policies,
  PolicyPack,
  type ReportViolation,
  type ResourceValidationArgs,
  type StackValidationArgs,
} from '@pulumi/policy'
import { createEngineView, placeOf } from './from-engine.ts'
import type { Finding, RuleContext, StackRule } from './rule.ts'
import { checkResource, checkWhole, STACK_RULES } from './rules.ts'
import { DEFAULT_SETTINGS, environmentOf, type PolicySettings } from './settings.ts'

/** Settings that `--policy-pack-config` accepts, by rule name. */
const CONFIG = {
  regions: { properties: { allowed: { type: 'array', items: { type: 'string' }, minItems: 1 } } },
  'kata-taint': { properties: { maxNodes: { type: 'integer', minimum: 1, maximum: 1000 } } },
} as const

interface Config {
  readonly allowed?: readonly string[]
  readonly maxNodes?: number
}

function contextOf(urn: string, config: Config): RuleContext {
  const settings: PolicySettings = {
    regions: config.allowed ?? DEFAULT_SETTINGS.regions,
    kataMaxNodes: config.maxNodes ?? DEFAULT_SETTINGS.kataMaxNodes,
  }
  return { environment: environmentOf(placeOf(urn).stack), settings }
}

const report = (findings: readonly Finding[], violation: ReportViolation) => {
  for (const { message, urn } of findings) violation(message, urn)
}

const view = createEngineView()

/** The engine needs two policies for a rule that checks both single resources and the whole stack. */
function policiesOf(rule: StackRule): Policies {
  const { name, level, requires, reason } = rule
  const common = { enforcementLevel: level, description: `${requires} (${reason})` } as const
  const config = Object.entries(CONFIG).find(([key]) => key === name)?.[1]
  const resource = {
    ...common,
    name,
    ...(config && { configSchema: config as never }),
    validateResource: (args: ResourceValidationArgs, violation: ReportViolation) => {
      const shown = view.resource(args)
      if (shown === undefined) return
      report(checkResource(rule, shown, contextOf(args.urn, args.getConfig<Config>())), violation)
    },
  }
  const stack = {
    ...common,
    name: rule.resource === undefined ? name : `${name}-stack`,
    validateStack: (args: StackValidationArgs, violation: ReportViolation) => {
      const plan = view.plan(args)
      report(
        checkWhole(rule, plan, contextOf(plan.resources[0]?.urn ?? '', args.getConfig<Config>())),
        violation,
      )
    },
  }
  return [...(rule.resource === undefined ? [] : [resource]), ...(rule.stack === undefined ? [] : [stack])]
}

/**
 * Rules about secret marks run on plans only, because the policy SDK removes the marks before the pack sees the values.
 */
new PolicyPack('agentweaver-stack', {
  enforcementLevel: 'mandatory',
  policies: STACK_RULES.filter((rule) => rule.planOnly !== true).flatMap(policiesOf),
})
