import type { AdmissionRule } from './rule.ts'

/** A CEL text. */
export function text(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

/** A CEL list of texts. */
export function list(values: readonly string[]): string {
  return `[${values.map(text).join(', ')}]`
}

/** A parameter that holds several values. */
export function listed(parameter: string): string {
  return `params.data.${parameter}.split(',')`
}

interface EachContainer {
  readonly name: string
  /** CEL about one container, `c`. */
  readonly permits: string
  /** `regular` leaves out ephemeral containers, which cannot have some fields. */
  readonly of?: 'all' | 'regular'
  readonly message: string
  readonly protects: string
}

/** A rule about every container: init and ephemeral ones too. The refusal names those at fault. */
export function eachContainer({
  name,
  permits,
  of = 'all',
  message,
  protects,
}: EachContainer): AdmissionRule {
  const containers = `variables.${of}`
  return {
    name,
    expression: `${containers}.all(c, ${permits})`,
    offenders: `${containers}.filter(c, !(${permits})).map(c, 'container ' + string(c.name))`,
    message,
    protects,
  }
}

interface KnownFields {
  readonly name: string
  /** CEL of an object. */
  readonly of: string
  /** How the refusal spells where the fields are. */
  readonly at: string
  readonly allowed: readonly string[]
  readonly protects: string
}

/** Refuses every field that is not on a list, those of future Kubernetes versions among them. */
export function knownFields({ name, of, at, allowed, protects }: KnownFields): AdmissionRule {
  const known = list(allowed)
  return {
    name,
    expression: `${of}.all(k, k in ${known})`,
    offenders: `${of}.filter(k, !(k in ${known})).map(k, ${text(`${at}.`)} + string(k))`,
    message: 'is not among the fields that a sandbox may set: remove it',
    protects,
  }
}

/**
 * CEL: two maps have the same entries under the keys that `guards` names. Maps have no order, so lists of their
 * entries cannot be compared.
 */
export function sameEntries(before: string, after: string, guards: (key: string) => string): string {
  return `${after}.all(k, !(${guards('k')}) || k in ${before} && ${before}[k] == ${after}[k]) && ${before}.all(k, !(${guards('k')}) || k in ${after})`
}

/** CEL list of the keys of a map whose values differ from those before, or that came or went. */
export function changedKeys(before: string, after: string): string {
  return `(${after}.filter(k, !(k in ${before}) || ${before}[k] != ${after}[k]) + ${before}.filter(k, !(k in ${after})))`
}
