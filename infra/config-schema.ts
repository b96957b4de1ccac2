import * as z from 'zod'
import { platformProblems, sliceProblems } from './config-rules.ts'
import {
  type ConfigProblem,
  type InfraConfig,
  type LayerConfig,
  LayerSections,
  type PlatformConfig,
  PlatformSections,
  type SliceConfig,
  SliceSections,
} from './config-sections.ts'
import { LAYERS } from './model/layers.ts'
import type { StackText } from './stack-file.ts'

/** Namespace of our keys in a stack file: the name of the project in `Pulumi.yaml`. */
export const CONFIG_NAMESPACE = 'agentweaver'

export type ParsedConfig = { readonly config: InfraConfig } | { readonly problems: readonly ConfigProblem[] }

/**
 * Parses the keys of a stack without their namespace. Each section is parsed separately, and the rules between sections
 * run on the valid ones, so that one run reports all mistakes.
 */
export function parseInfraConfig(record: Readonly<Record<string, unknown>>): ParsedConfig {
  if (record['kind'] === 'platform' && LAYERS.some((layer) => layer === record['layer'])) {
    return parseLayer(record)
  }
  if (record['kind'] === 'platform') {
    const { sections, problems } = parseSections<PlatformConfig>(PlatformSections.shape, record)
    return settle(PlatformSections.safeParse(record), [...problems, ...platformProblems(sections)])
  }
  if (record['kind'] === 'slice') {
    const { sections, problems } = parseSections<SliceConfig>(SliceSections.shape, record)
    return settle(SliceSections.safeParse(record), [...problems, ...sliceProblems(sections)])
  }
  return {
    problems: [{ path: 'kind', message: 'must be "platform" (a whole cluster) or "slice" (a preview)' }],
  }
}

/** A stack of one layer has only its name and its environment; all other settings are in another file. */
function parseLayer(record: Readonly<Record<string, unknown>>): ParsedConfig {
  const { problems } = parseSections<LayerConfig>(LayerSections.shape, record)
  const file = `Pulumi.${String(record['environment'])}.yaml`
  const told = problems.map(({ path, message }) =>
    Object.hasOwn(PlatformSections.shape, path) && !Object.hasOwn(LayerSections.shape, path)
      ? { path, message: `is a setting of the whole platform: remove it here, and set it in ${file}` }
      : { path, message },
  )
  return settle(LayerSections.safeParse(record), told)
}

function settle(whole: z.ZodSafeParseResult<InfraConfig>, problems: readonly ConfigProblem[]): ParsedConfig {
  if (problems.length > 0) return { problems }
  if (whole.success) return { config: deepFreeze(whole.data) }
  return { problems: whole.error.issues.map((issue) => toProblem(issue, [])) }
}

/** Returns the valid sections, and the problems of the invalid ones. */
function parseSections<T>(shape: z.ZodRawShape, record: Readonly<Record<string, unknown>>) {
  const sections: Partial<Record<string, unknown>> = {}
  const problems: ConfigProblem[] = Object.keys(record)
    .filter((key) => !Object.hasOwn(shape, key))
    .map((key) => ({ path: key, message: 'is no setting; see infra/config-schema.ts for those there are' }))
  for (const [key, schema] of Object.entries(shape)) {
    const parsed = z.safeParse(schema, record[key])
    if (parsed.success) sections[key] = parsed.data
    else if (record[key] === undefined) problems.push({ path: key, message: `is missing: ${hint(schema)}` })
    else problems.push(...parsed.error.issues.map((issue) => toProblem(issue, [key])))
  }
  return { sections: sections as Partial<T>, problems }
}

/** The problem of a missing section: the keys that it must set. */
function hint(schema: z.core.$ZodType): string {
  const keys = z.safeParse(schema, {}).error?.issues.filter(({ path }) => path.length > 0) ?? []
  if (keys.length > 0) return `it needs ${keys.map(({ path }) => path.join('.')).join(', ')}`
  return z.safeParse(schema, '').error?.issues[0]?.message ?? 'give it a value'
}

function toProblem(issue: z.core.$ZodIssue, above: readonly string[]): ConfigProblem {
  return { path: [...above, ...issue.path].map(String).join('.'), message: issue.message }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner)
    Object.freeze(value)
  }
  return value
}

/** Namespaces of the providers' own settings, which a stack file may also contain. */
const FOREIGN = ['azure-native', 'kubernetes', 'pulumi']

/**
 * Parses the section `config` of a stack file. Nothing in it is secret, so an encrypted value is a mistake, and so is a
 * key of a namespace that no part of the program reads.
 */
export function parseStackFile({ config, problems: ambiguous }: StackText): ParsedConfig {
  const faults = Object.entries(config).flatMap(([key, value]) => {
    const message = fault(key, value)
    return message === undefined ? [] : [{ path: key, message }]
  })
  const own = Object.entries(config).filter(([key]) => key.startsWith(`${CONFIG_NAMESPACE}:`))
  const parsed = parseInfraConfig(
    Object.fromEntries(own.map(([key, value]) => [key.slice(CONFIG_NAMESPACE.length + 1), value])),
  )
  return withProblems(parsed, [...faults, ...ambiguous])
}

/** Combines the found problems with schema problems at other paths, so that an ambiguous value is reported once. */
export function withProblems(parsed: ParsedConfig, found: readonly ConfigProblem[]): ParsedConfig {
  if (found.length === 0) return parsed
  const told = new Set(found.map(({ path }) => path))
  const others = 'problems' in parsed ? parsed.problems.filter(({ path }) => !told.has(path)) : []
  return { problems: [...found, ...others] }
}

function fault(key: string, value: unknown): string | undefined {
  const [namespace = '', name] = key.split(':')
  if (name === undefined) return `needs its namespace: ${CONFIG_NAMESPACE}:${key}`
  if (isEncrypted(value)) return 'is encrypted: no setting here is a secret'
  if (![CONFIG_NAMESPACE, ...FOREIGN].includes(namespace)) return 'is in a namespace that nothing reads'
  return undefined
}

const isEncrypted = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.keys(value).join() === 'secure'
