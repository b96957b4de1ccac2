import * as z from 'zod'

/** The fields of `pulumi refresh --preview-only --json` that describe changes. */
const Digest = z.object({
  steps: z.array(
    z.object({
      op: z.string(),
      urn: z.string(),
      detailedDiff: z.record(z.string(), z.unknown()).nullish(),
      diffReasons: z.array(z.string()).nullish(),
      oldState: z.object({ outputs: z.record(z.string(), z.unknown()).optional() }).nullish(),
      newState: z.object({ outputs: z.record(z.string(), z.unknown()).optional() }).nullish(),
    }),
  ),
})
type Step = z.infer<typeof Digest>['steps'][number]

export interface Drift {
  readonly urn: string
  readonly op: string
  /** Paths of the differing values; empty if Pulumi reports none. */
  readonly paths: readonly string[]
  /** Whether it is what Azure and the cluster change by themselves. */
  readonly isExpected: boolean
}

/**
 * What changes without us, by type: the autoscaler's counts, the versions that automatic upgrades bring, what controllers
 * write into their own definitions.
 */
const EXPECTED: Readonly<Record<string, readonly RegExp[]>> = {
  'azure-native:containerservice:ManagedCluster': [
    /^agentPoolProfiles\[\d+\]\.(?:count|currentOrchestratorVersion|nodeImageVersion|orchestratorVersion)$/,
    /^(?:currentK|k)ubernetesVersion$/,
    /^powerState/,
    /^provisioningState$/,
    /^eTag$/,
  ],
  'azure-native:containerservice:AgentPool': [
    /^(?:count|currentOrchestratorVersion|nodeImageVersion|orchestratorVersion|provisioningState|eTag)$/,
  ],
  'kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition': [
    /^spec\.conversion(?:\.|$)/,
    /^status(?:\.|$)/,
  ],
  'kubernetes:apps/v1:Deployment': [/^status(?:\.|$)/, /^metadata\.(?:generation|resourceVersion)$/],
}

/**
 * Returns all differences, unexpected ones first. Throws if the text is not a digest, so that missing output is never
 * reported as no drift.
 */
export function judgeDrift(text: string): Drift[] {
  const { steps } = Digest.parse(JSON.parse(text))
  return steps
    .filter(({ op }) => op !== 'same' && op !== 'read')
    .map(judge)
    .filter(({ op, paths }) => !(op === 'refresh' && paths.length === 0))
    .toSorted((a, b) => Number(a.isExpected) - Number(b.isExpected))
}

function judge(step: Step): Drift {
  const { op, urn } = step
  const paths = pathsOf(step)
  const allowed = EXPECTED[typeOf(urn)] ?? []
  const isChange = op === 'update' || op === 'refresh'
  const isExpected =
    isChange && paths.length > 0 && paths.every((path) => allowed.some((one) => one.test(path)))
  return { urn, op, paths, isExpected }
}

/** `urn:pulumi:<stack>::<project>::<parents>$<type>::<name>`. */
const typeOf = (urn: string) => urn.split('::')[2]?.split('$').at(-1) ?? ''

function pathsOf({ detailedDiff, diffReasons, oldState, newState }: Step): string[] {
  const told = Object.keys(detailedDiff ?? {})
  if (told.length > 0) return told.sort()
  if (diffReasons && diffReasons.length > 0) return diffReasons.toSorted()
  const before = oldState?.outputs ?? {}
  const after = newState?.outputs ?? {}
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
    .sort()
}

/** The page of a run: names and paths, never values, which may be anything. */
export function driftPage(drifts: readonly Drift[]): string {
  if (drifts.length === 0) return 'No drift.\n'
  const rows = drifts.map(({ urn, op, paths, isExpected }) => {
    const name = urn.split('::').at(-1) ?? urn
    const where = paths.length > 0 ? paths.map((path) => `\`${path}\``).join(', ') : 'not told'
    return `| ${isExpected ? 'expected' : '**drift**'} | ${op} | \`${typeOf(urn)}\` | \`${name}\` | ${where} |`
  })
  return ['| | what | type | name | where |', '|---|---|---|---|---|', ...rows, ''].join('\n')
}
