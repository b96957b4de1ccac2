import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, inject } from 'vitest'
import { BoundPolicy } from '../../../charts-src/admission/bound-policy.ts'
import { addParameters } from '../../../charts-src/apps/admission.ts'
import { chartObjects } from '../../../charts-src/tree/chart-objects.ts'
import { createKubeClient, KubeApiError, type KubeClient } from '../../../devcluster/client/kube-client.ts'
import type { KubeObject } from '../../../devcluster/client/kube-object.ts'
import { readKubeconfig } from '../../../devcluster/client/kubeconfig.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import type { AdmissionParameters } from '../../../policies/admission/parameters.ts'
import { ADMISSION_POLICIES } from '../../../policies/admission/policies.ts'
import type { AdmissionPolicy } from '../../../policies/admission/rule.ts'
import { EXAMPLES } from '../../admission/examples/all.ts'
import type { Attempt } from '../../admission/examples/attempt.ts'
import { aRunClaim, OLD_CLAIM } from '../../admission/examples/claims.ts'
import { aSandboxPod } from '../../admission/examples/sandbox-pod.ts'
import { aQuota, aStrictPool, aStrictTemplate, aVolumeClaim, OLD } from '../../admission/examples/writers.ts'
import {
  type Actor,
  type AdmissionSpace,
  BREAK_GLASS_GROUP,
  GITOPS_IDENTITY,
  identityOf,
} from '../../admission/space.ts'

const READY_MS = 60_000

/** The API server's response, with the name of the rule if one of our rules rejected the request. */
export interface Answer {
  readonly status: number
  readonly rule: string
  readonly message: string
  /** The object that the API server would store. */
  readonly object?: KubeObject
}

export interface AdmissionTest extends AdmissionSpace {
  readonly client: KubeClient
  as(actor: Actor): KubeClient
  /** Another namespace of the same slice. */
  beside(name: string): AdmissionSpace
  ask(attempt: Attempt): Promise<Answer>
}

interface Beside {
  readonly parameters: (runtimeClass: string) => AdmissionParameters
  /** Pod Security level of the namespace. @default none: only our rules reject requests */
  readonly podSecurity?: 'restricted'
}

interface SpaceOptions {
  readonly parameters: (runtimeClass: string) => AdmissionParameters
  /** Further namespaces of the same slice, by a name of the test's. @default none */
  readonly beside?: Readonly<Record<string, Beside>>
}

/**
 * A namespace of sandboxes with all policies. The policies' names, their selector label and their namespaces are unique
 * to this file, so that parallel suites do not affect each other.
 */
export function useAdmissionSpace(prefix: string, { parameters, beside = {} }: SpaceOptions): AdmissionTest {
  const id = `${prefix}-${randomBytes(3).toString('hex')}`
  const connection = readKubeconfig(inject('cluster').kubeconfig)
  const client = createKubeClient(connection)
  const space: AdmissionSpace = {
    namespace: `${id}-sandboxes`,
    controlPlane: `${id}-plane`,
    sliceLabel: `${id}.test/slice`,
    parameters: parameters(id),
  }
  const controlPlane = { ...space, namespace: space.controlPlane }
  const neighbours = Object.entries(beside).map(([name, options]) => ({
    name,
    podSecurity: options.podSecurity,
    space: { ...space, namespace: `${id}-${name}-sandboxes`, parameters: options.parameters(id) },
  }))
  const clients = new Map<Actor, KubeClient>()
  const as = (actor: Actor): KubeClient => {
    const known =
      clients.get(actor) ?? createKubeClient({ ...connection, impersonate: identityOf(actor, space) })
    clients.set(actor, known)
    return known
  }
  const test: AdmissionTest = {
    ...space,
    client,
    as,
    beside(name) {
      const found = neighbours.find((neighbour) => neighbour.name === name)
      if (!found) throw new Error(`there is no namespace ${name} beside`)
      return found.space
    },
    async ask({ by, method, url, body, contentType }) {
      try {
        const answer = await as(by).raw({ method, url, body, ...(contentType ? { contentType } : {}) })
        return { status: 200, rule: '', message: '', object: JSON.parse(answer) }
      } catch (error) {
        if (!(error instanceof KubeApiError)) throw error
        return { status: error.status, rule: ruleOf(error.message), message: error.message }
      }
    },
  }
  const settings = {
    prefix: id,
    sliceLabel: space.sliceLabel,
    gitopsIdentity: GITOPS_IDENTITY,
    breakGlassGroup: BREAK_GLASS_GROUP,
    ownNamespaces: `^${id}(-twin)?-sandboxes$`,
    sandboxNamespaces: `^${id}-sandboxes$`,
    workspaceStorage: `${id}-workspace`,
  }
  const policies = chartObjects((chart) => {
    for (const policy of ADMISSION_POLICIES) new BoundPolicy(chart, policy.name, { policy, settings })
  }) as readonly KubeObject[]

  beforeAll(async () => {
    await client.create({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: id },
      handler: 'kata',
    })
    await makeNamespace(client, space)
    await makeNamespace(client, controlPlane)
    await makeOldObjects(test)
    await Promise.all(neighbours.map((each) => makeNamespace(client, each.space, each.podSecurity)))
    await Promise.all(policies.map((policy) => client.create(policy)))
    await waitUntilEnforced(test)
  })
  afterAll(async () => {
    const runtimeClass = { apiVersion: 'node.k8s.io/v1', plural: 'runtimeclasses', name: id }
    const namespaces = [space, controlPlane, ...neighbours.map((each) => each.space)].map(namespacePath)
    // The rules are deleted first, because they would reject the deletions of the other objects by this client.
    for (const path of [...policies.map(policyPath), runtimeClass, ...namespaces]) {
      if (await client.find(path)) await client.delete(path)
    }
    await Promise.all([client, ...clients.values()].map((open) => open.close()))
  })
  return test
}

function ruleOf(message: string): string {
  return /denied request: \[([a-z0-9-]+)\]/.exec(message)?.[1] ?? ''
}

const namespacePath = ({ namespace }: AdmissionSpace) => ({
  apiVersion: 'v1',
  plural: 'namespaces',
  name: namespace,
})

function policyPath({ apiVersion, kind, metadata }: KubeObject) {
  const plural = kind.endsWith('Binding')
    ? 'validatingadmissionpolicybindings'
    : 'validatingadmissionpolicies'
  return { apiVersion, plural, name: metadata.name }
}

/** A namespace with its accounts and parameters. */
async function makeNamespace(client: KubeClient, space: AdmissionSpace, podSecurity?: string): Promise<void> {
  const { namespace, parameters, sliceLabel } = space
  const labels = {
    [sliceLabel]: 'base',
    ...(podSecurity && { 'pod-security.kubernetes.io/enforce': podSecurity }),
  }
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } })
  for (const name of [parameters.agentAccount, parameters.commandAccount]) {
    await client.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } })
  }
  const objects = chartObjects((chart) => addParameters(chart, namespace, parameters)) as KubeObject[]
  for (const object of objects) await client.create(object)
}

/** Creates the objects for the update tests. They must exist before the rules, which would reject their creation. */
async function makeOldObjects(test: AdmissionTest): Promise<void> {
  const { client } = test
  await client.create(aSandboxPod(test, OLD.pod))
  await client.create(aRunClaim(test, OLD_CLAIM))
  await client.create(aStrictTemplate(test, OLD.template))
  await client.create(aStrictPool(test, OLD.pool, { template: OLD.template }))
  await client.create(aQuota(test, OLD.quota))
  await client.create(aVolumeClaim(test, OLD.volume))
}

/** The API server enforces new policies within about a second. One rejection by each policy proves it. */
async function waitUntilEnforced(test: AdmissionTest): Promise<void> {
  await Promise.all(ADMISSION_POLICIES.map((policy) => waitUntilRefuses(test, policy)))
}

async function waitUntilRefuses(test: AdmissionTest, { name, rules }: AdmissionPolicy): Promise<void> {
  const [first] = rules
  const example = first && EXAMPLES[first.name]
  if (!first || !example) throw new Error(`policy ${name} has no rule with an example`)
  let last = ''
  await waitUntil({ what: `policy ${name} to refuse`, timeoutMs: READY_MS, everyMs: 50 }, async () => {
    const answer = await test.ask(example(test).fails)
    last = answer.message
    return answer.rule === first.name ? true : undefined
  }).catch((error: unknown) => {
    throw new Error(`policy ${name} never refused by ${first.name}; the last answer was: ${last}`, {
      cause: error,
    })
  })
}
