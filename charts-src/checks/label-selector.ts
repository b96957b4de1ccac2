import { listAt, recordAt, textAt } from './read-fields.ts'

type Labels = Readonly<Record<string, unknown>>

/** Cilium prefixes a label key with its source. All labels in the tree come from Kubernetes. */
const plainKey = (key: string) => key.replace(/^(?:k8s|any):/, '')

/** Whether a label selector (`matchLabels`, `matchExpressions`) matches these pod labels. */
export function selects(selector: unknown, labels: Labels): boolean {
  const exact = Object.entries(recordAt(selector, 'matchLabels'))
  return (
    exact.every(([key, value]) => labels[plainKey(key)] === value) &&
    listAt(selector, 'matchExpressions').every((expression) => holds(expression, labels))
  )
}

export function isEmptySelector(selector: unknown): boolean {
  return (
    Object.keys(recordAt(selector, 'matchLabels')).length + listAt(selector, 'matchExpressions').length === 0
  )
}

function holds(expression: unknown, labels: Labels): boolean {
  const value = labels[plainKey(textAt(expression, 'key') ?? '')]
  const isListed = listAt(expression, 'values').includes(value)
  switch (textAt(expression, 'operator')) {
    case 'In':
      return isListed
    case 'NotIn':
      return !isListed
    case 'Exists':
      return value !== undefined
    case 'DoesNotExist':
      return value === undefined
    default:
      return false
  }
}
