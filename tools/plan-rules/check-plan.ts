import type { Plan } from '../../contracts/planned-resource.ts'
import { checkStack } from '../../policies/stack/rules.ts'
import { checkShapes, type Shapes, typesWithoutShape } from '../azure-shapes/check-shapes.ts'
import { hiddenObjects } from '../azure-shapes/hidden-objects.ts'

export interface PlanVerdict {
  /** Text for the terminal, grouped by kind of finding. */
  readonly text: string
  /** False if a rule rejects the plan, or if an input has a shape that Azure does not accept. */
  readonly isSound: boolean
}

/** Checks a plan against the rules and against Azure's types, and lists the parts that neither check covers. */
export function checkPlan(plan: Plan, shapes: Shapes): PlanVerdict {
  const findings = checkStack(plan)
  const refused = findings.filter(({ level }) => level === 'mandatory')
  const advised = findings.filter(({ level }) => level === 'advisory')
  const misshapen = checkShapes(plan, shapes)
  const hidden = hiddenObjects(plan, shapes)
  const unchecked = typesWithoutShape(plan).filter((type) => !/^(?:kubernetes|pulumi):/.test(type))
  const parts = [
    group(
      'refused by rules',
      refused.map(({ rule, urn, message }) => `[${rule}] ${short(urn)}: ${message}`),
    ),
    group(
      'not of a shape that Azure takes',
      misshapen.map(({ urn, path, message }) => `${short(urn)}: ${path} ${message}`),
    ),
    group(
      'advised by rules',
      advised.map(({ rule, urn, message }) => `[${rule}] ${short(urn)}: ${message}`),
    ),
    group(
      'not shown by the plan, so not checked',
      hidden.map(({ urn, path }) => `${short(urn)}: ${path}`),
    ),
    group('of types that no shape is known for', unchecked),
  ]
  const isSound = refused.length === 0 && misshapen.length === 0
  const told = parts.filter((part) => part !== '')
  return {
    isSound,
    text: [
      `${plan.stack}: ${plan.resources.length} resources, ${isSound ? 'sound' : 'refused'}`,
      ...told,
    ].join('\n'),
  }
}

const group = (title: string, lines: readonly string[]) =>
  lines.length === 0 ? '' : [`  ${title}:`, ...lines.map((line) => `    ${line}`)].join('\n')

/** `keyvault:Vault user-tokens` of a URN. */
function short(urn: string): string {
  const [, , types = '', name = ''] = urn.split('::')
  return `${types.split('$').at(-1)?.replace('azure-native:', '')} ${name}`
}
