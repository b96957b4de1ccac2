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
  readonly risk: string
}

/**
 * A rule for every container, including init and ephemeral containers. The rejection lists the containers that violate
 * it.
 */
export function eachContainer({ name, permits, of = 'all', message, risk }: EachContainer): AdmissionRule {
  const containers = `variables.${of}`
  return {
    name,
    expression: `${containers}.all(c, ${permits})`,
    offenders: `${containers}.filter(c, !(${permits})).map(c, 'container ' + string(c.name))`,
    message,
    risk,
  }
}

interface KnownFields {
  readonly name: string
  /** CEL of an object. */
  readonly of: string
  /** Path of the fields in the rejection message. */
  readonly at: string
  readonly allowed: readonly string[]
  readonly risk: string
}

/** Rejects every field that is not on the list, so fields of future Kubernetes versions are rejected too. */
export function knownFields({ name, of, at, allowed, risk }: KnownFields): AdmissionRule {
  const known = list(allowed)
  return {
    name,
    expression: `${of}.all(k, k in ${known})`,
    offenders: `${of}.filter(k, !(k in ${known})).map(k, ${text(`${at}.`)} + string(k))`,
    message: 'is not among the fields that a sandbox may set: remove it',
    risk,
  }
}

/**
 * CEL: two maps have the same entries under the keys that `guards` names. Maps have no order, so lists of their
 * entries cannot be compared.
 */
export function sameEntries(before: string, after: string, guards: (key: string) => string): string {
  return `${after}.all(k, !(${guards('k')}) || k in ${before} && ${before}[k] == ${after}[k]) && ${before}.all(k, !(${guards('k')}) || k in ${after})`
}

/** CEL list of the keys that were added, removed or changed in a map. */
export function changedKeys(before: string, after: string): string {
  return `(${after}.filter(k, !(k in ${before}) || ${before}[k] != ${after}[k]) + ${before}.filter(k, !(k in ${after})))`
}
