import type { z } from 'zod'
import type { KubeObject } from '../charts-src/kube-object.ts'
import { covers, isMapped, parseRange, type Range } from './address.ts'
import type { PeerMatch } from './compiled-rule.ts'
import type { PolicyFault } from './model.ts'
import { keyWrittenTwice, type LabelSelector, selectorFault, unknownLabel } from './selector.ts'

/** The policy that is being compiled, with the faults found so far. */
export interface PolicyContext {
  readonly policy: string
  readonly namespace: string | undefined
  readonly faults: PolicyFault[]
}

export const titleOf = ({ kind, metadata }: KubeObject): string =>
  `${kind} ${metadata.namespace === undefined ? '' : `${metadata.namespace}/`}${metadata.name}`

export function notUnderstood(context: PolicyContext, path: string, reason: string): void {
  context.faults.push({ kind: 'not understood', policy: context.policy, path, reason })
}

export function refused(context: PolicyContext, path: string, reason: string): void {
  context.faults.push({ kind: 'refused by the agent', policy: context.policy, path, reason })
}

/** Parses a value with a strict schema. Each unknown key is reported as a separate fault. */
export function parseStrictly<T extends z.ZodType>(
  context: PolicyContext,
  schema: T,
  value: unknown,
): z.infer<T> | undefined {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  for (const { path, reason } of parsed.error.issues.flatMap(issueTexts)) notUnderstood(context, path, reason)
  return undefined
}

function issueTexts(issue: z.core.$ZodIssue): { readonly path: string; readonly reason: string }[] {
  if (issue.code !== 'unrecognized_keys') return [{ path: pathText(issue.path), reason: issue.message }]
  return issue.keys.map((key) => ({
    path: pathText([...issue.path, key]),
    reason: 'is not a field that is evaluated here',
  }))
}

const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, part) =>
      typeof part === 'number' ? `${text}[${part}]` : `${text}${text === '' ? '' : '.'}${String(part)}`,
    '',
  )

/** Reports the faults of a selector. */
export function checkSelector(context: PolicyContext, path: string, selector: LabelSelector): void {
  const fault = selectorFault(selector)
  if (fault !== undefined) refused(context, path, fault)
  const unknown = unknownLabel(selector)
  if (unknown !== undefined)
    notUnderstood(context, path, `selects by "${unknown}", a label that is not modelled`)
  const twice = keyWrittenTwice(selector)
  if (twice !== undefined)
    notUnderstood(context, path, `has "${twice}" twice in matchLabels: Cilium keeps either value`)
}

/**
 * Parses a CIDR with its exceptions. Reports a fault and returns undefined if the CIDR is invalid; an invalid exception
 * is a fault too.
 */
export function rangeMatch(
  context: PolicyContext,
  path: string,
  { cidr, except = [] }: { readonly cidr: string; readonly except?: readonly string[] | undefined },
): PeerMatch | undefined {
  const mapped = [cidr, ...except].find(isMapped)
  if (mapped !== undefined) {
    notUnderstood(context, path, `"${mapped}" is a range of IPv4 written as IPv6, which is not modelled`)
    return undefined
  }
  const range = cidr.includes('/') ? parseRange(cidr) : undefined
  if (range === undefined) {
    refused(context, path, `"${cidr}" is no range of addresses`)
    return undefined
  }
  const cut: Range[] = []
  for (const text of except) {
    const hole = text.includes('/') ? parseRange(text) : undefined
    if (hole && covers(range, hole)) cut.push(hole)
    else refused(context, `${path}.except`, `"${text}" is no range inside ${cidr}`)
  }
  return { kind: 'range', range, except: cut }
}
