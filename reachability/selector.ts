import * as z from 'zod'

/** Source of a label: Kubernetes objects, Cilium itself, or, only in a selector, either of them. */
type LabelSource = 'k8s' | 'reserved' | 'any'

/** One condition on labels. */
export interface Requirement {
  readonly source: LabelSource
  readonly key: string
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist'
  readonly values: readonly string[]
}

/** Labels by source and key, such as `k8s:app`. */
export type SourcedLabels = ReadonlyMap<string, string>

/** All requirements must match. A selector without requirements matches everything. */
export interface Selector {
  readonly requirements: readonly Requirement[]
  /** Equal for selectors with equal requirements. */
  readonly key: string
}

const Expression = z.strictObject({
  key: z.string().min(1),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
  values: z.array(z.string()).nullish(),
})
export const LabelSelector = z.strictObject({
  matchLabels: z.record(z.string().min(1), z.string()).nullish(),
  matchExpressions: z.array(Expression).nullish(),
})
export type LabelSelector = z.infer<typeof LabelSelector>

/** Returns the requirements of a selector. A key without a source prefix gets `source`. */
export function requirementsOf(selector: LabelSelector, source: LabelSource): Requirement[] {
  const labels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => ({
    ...sourced(key, source),
    operator: 'In' as const,
    values: [value],
  }))
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values }) => ({
    ...sourced(key, source),
    operator,
    values: values ?? [],
  }))
  return [...labels, ...expressions]
}

const LABEL_WORD = '[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'
const LABEL_VALUE = new RegExp(`^(?:${LABEL_WORD})?$`)
const DNS_WORD = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?'
const LABEL_KEY = new RegExp(`^(?:(?=[^/]{1,253}/)${DNS_WORD}(?:\\.${DNS_WORD})*/)?${LABEL_WORD}$`)

/** Returns the reason why every policy engine rejects this selector, or undefined. */
export function selectorFault({ matchLabels, matchExpressions }: LabelSelector): string | undefined {
  const labels = Object.entries(matchLabels ?? {}).map(([key, value]) => wordFault(key, [value]))
  const expressions = (matchExpressions ?? []).map(
    ({ key, operator, values }) => wordFault(key, values ?? []) ?? operatorFault(key, operator, values ?? []),
  )
  return [...labels, ...expressions].find((fault) => fault !== undefined)
}

/** Checks keys and values, because the CRD's schema validates neither keys nor the values of expressions. */
function wordFault(key: string, values: readonly string[]): string | undefined {
  if (!LABEL_KEY.test(withoutSource(key))) return `"${key}" is no key of a label`
  const wrong = values.find((value) => !LABEL_VALUE.test(value))
  return wrong === undefined ? undefined : `"${wrong}" is no value of a label`
}

function operatorFault(key: string, operator: string, values: readonly string[]): string | undefined {
  const wantsValues = operator === 'In' || operator === 'NotIn'
  if (wantsValues === values.length > 0) return undefined
  return `${operator} on "${key}" ${wantsValues ? 'needs values' : 'takes no values'}`
}

const withoutSource = (key: string): string => key.replace(/^[A-Za-z0-9]+:/, '')

/** Every key of a selector, as written. */
export const keysOf = ({ matchLabels, matchExpressions }: LabelSelector): string[] => [
  ...Object.keys(matchLabels ?? {}),
  ...(matchExpressions ?? []).map(({ key }) => key),
]

/** Labels of Cilium's aggregate identities and of named ports. Pods created before Cilium 1.20 lack the latter. */
const CILIUMS_OWN =
  /^(?:any:|reserved:)?(?:aggregate-(?:cluster|cluster-mesh|world|remote-node)$|io\.cilium\.k8s\.named-ports)/

/**
 * Returns a key that this evaluator does not model, including labels of other sources (`cidr:`, `fqdn:`, `node:` …).
 */
export const unknownLabel = (selector: LabelSelector): string | undefined =>
  keysOf(selector).find(
    (key) => CILIUMS_OWN.test(key) || (/^\$|:/.test(key) && !/^(?:k8s|reserved|any):./.test(key)),
  )

/**
 * Returns a key that `matchLabels` contains both with and without the prefix `any:`. Cilium keeps an arbitrary one of
 * the two values.
 */
export const keyWrittenTwice = ({ matchLabels }: LabelSelector): string | undefined =>
  Object.keys(matchLabels ?? {}).find((key) => Object.hasOwn(matchLabels ?? {}, `any:${key}`))

export function createSelector(requirements: readonly Requirement[]): Selector {
  const texts = requirements.map(
    ({ source, key, operator, values }) =>
      `${source}:${key} ${operator} ${JSON.stringify(values.toSorted())}`,
  )
  return { requirements, key: texts.sort().join(' & ') }
}

export const selects = (selector: Selector, labels: SourcedLabels): boolean =>
  selector.requirements.every((requirement) => holds(requirement, labels))

function holds({ source, key, operator, values }: Requirement, labels: SourcedLabels): boolean {
  const value =
    source === 'any'
      ? (labels.get(`k8s:${key}`) ?? labels.get(`reserved:${key}`))
      : labels.get(`${source}:${key}`)
  if (operator === 'Exists') return value !== undefined
  if (operator === 'DoesNotExist') return value === undefined
  const isListed = value !== undefined && values.includes(value)
  return operator === 'In' ? isListed : !isListed
}

function sourced(key: string, fallback: LabelSource): { source: LabelSource; key: string } {
  const [, source, rest] = /^(k8s|reserved|any):(.+)$/.exec(key) ?? []
  return source === undefined || rest === undefined
    ? { source: fallback, key }
    : { source: source as LabelSource, key: rest }
}
