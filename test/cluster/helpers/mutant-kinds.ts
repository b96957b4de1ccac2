import type { KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { type Attempt, create, put } from '../../admission/examples/attempt.ts'
import { aRunClaim, OLD_CLAIM } from '../../admission/examples/claims.ts'
import { aSandboxPod } from '../../admission/examples/sandbox-pod.ts'
import { aStrictTemplate, OLD } from '../../admission/examples/writers.ts'
import { addedFields, changedFields, type Mutant, type Schemas } from '../../admission/mutants.ts'
import {
  NEUTRAL_CLAIM_MUTANTS,
  NEUTRAL_POD_MUTANTS,
  NEUTRAL_RUNNING_MUTANTS,
  NEUTRAL_STANDING_MUTANTS,
  NEUTRAL_TEMPLATE_MUTANTS,
  type Neutral,
} from '../../admission/neutral-mutants.ts'
import type { Actor } from '../../admission/space.ts'
import type { AdmissionTest } from './admission-space.ts'

const EXTENSIONS = 'extensions.agents.x-k8s.io/v1beta1'
const FIELDS = [['metadata', 'labels'], ['metadata', 'annotations'], ['spec']] as const

/** One way in which an authorized actor submits an object to the rules. */
export interface MutantKind {
  readonly by: Actor
  readonly strict: (test: AdmissionTest) => KubeObject | Promise<KubeObject>
  readonly send: (by: Actor, object: KubeObject) => Attempt
  readonly group: string
  readonly schema: string
  /** A field that is asked of another object: the pod of a template when it is made. */
  readonly leavesOut?: string
  /** Fields that the object does not have are tried too. */
  readonly adds: boolean
  readonly neutral: readonly Neutral[]
  /** Minimum number of different rules that reject mutants. Fewer means that the generator no longer works. */
  readonly rules: number
}

const POD = { by: 'controller', group: 'api/v1', schema: 'io.k8s.api.core.v1.Pod' } as const
const CLAIM = {
  by: 'api',
  group: `apis/${EXTENSIONS}`,
  schema: 'io.x-k8s.agents.extensions.v1beta1.SandboxClaim',
} as const

export const MUTANT_KINDS: Readonly<Record<string, MutantKind>> = {
  'a pod that is made': {
    ...POD,
    strict: (test) => aSandboxPod(test),
    send: create,
    adds: true,
    neutral: NEUTRAL_POD_MUTANTS,
    rules: 46,
  },
  'a pod that runs': {
    ...POD,
    strict: ({ client, namespace }) =>
      client.get({ apiVersion: 'v1', plural: 'pods', namespace, name: OLD.pod }),
    send: put,
    adds: false,
    neutral: NEUTRAL_RUNNING_MUTANTS,
    rules: 2,
  },
  'a claim that is made': {
    ...CLAIM,
    strict: (test) => aRunClaim(test),
    send: create,
    adds: true,
    neutral: NEUTRAL_CLAIM_MUTANTS,
    rules: 6,
  },
  'a claim that stands': {
    ...CLAIM,
    strict: ({ client, namespace }) =>
      client.get({ apiVersion: EXTENSIONS, plural: 'sandboxclaims', namespace, name: OLD_CLAIM }),
    send: put,
    adds: true,
    neutral: NEUTRAL_STANDING_MUTANTS,
    rules: 3,
  },
  'a template': {
    by: 'gitops',
    strict: (test) => aStrictTemplate(test),
    send: create,
    group: `apis/${EXTENSIONS}`,
    schema: 'io.x-k8s.agents.extensions.v1beta1.SandboxTemplate',
    leavesOut: 'spec.podTemplate',
    adds: true,
    neutral: NEUTRAL_TEMPLATE_MUTANTS,
    rules: 3,
  },
}

export async function mutantsOf(client: KubeClient, kind: MutantKind, strict: KubeObject): Promise<Mutant[]> {
  const present = FIELDS.filter(([first, second]) => !second || strict[first][second])
  const changed = changedFields(strict, present)
  const all = kind.adds ? [...changed, ...(await added(client, kind, strict))] : changed
  return all.filter(({ path }) => kind.leavesOut === undefined || !path.startsWith(kind.leavesOut))
}

/** After the schema that this very server publishes. */
async function added(
  client: KubeClient,
  { group, schema }: MutantKind,
  strict: KubeObject,
): Promise<Mutant[]> {
  const answer = JSON.parse(await client.raw({ method: 'GET', url: `/openapi/v3/${group}` }))
  const { schemas } = (answer as { components: { schemas: Schemas } }).components
  const root = schemas[schema]
  if (!root) throw new Error(`the server has no schema ${schema}`)
  return addedFields(strict, root, schemas)
}
