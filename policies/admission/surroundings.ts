import { RUNTIME_CLASSES } from '../../contracts/labels.ts'
import { PREVIEW_PORTS } from '../../contracts/ports.ts'
import { byApi, byCollector, byController, byGitops } from './actors.ts'
import { text } from './cel.ts'
import type { AdmissionPolicy } from './rule.ts'

const { min, max, except } = PREVIEW_PORTS
const target = 'dyn(p).?targetPort.orValue(p.port)'

/** A Service here makes a preview of one port of one sandbox. */
const SERVICES: AdmissionPolicy = {
  name: 'sandbox-services',
  scope: 'sandboxes',
  matches: [{ apiGroup: '', apiVersion: 'v1', resources: ['services'], operations: ['CREATE', 'UPDATE'] }],
  variables: {},
  rules: [
    {
      name: 'service-writer',
      expression: `${byApi} || ${byController} || ${byGitops} || ${byCollector}`,
      message: 'only the API writes Services of this namespace: open a preview',
      protects: 'against names and addresses for sandboxes that nobody asked for',
    },
    {
      name: 'service-exposure',
      expression:
        "object.spec.?type.orValue('ClusterIP') == 'ClusterIP' && object.spec.?externalIPs.orValue([]).size() == 0",
      message:
        'spec.type must be ClusterIP, and spec.externalIPs must be left out: previews are reached through their Gateway',
      protects: 'sandboxes from being reached past the Gateway',
    },
    {
      name: 'service-port',
      expression: `object.spec.?ports.orValue([]).all(p, type(${target}) == int && ${target} >= ${min} && ${target} <= ${max} && !(${target} in [${except.join(', ')}]))`,
      message: `spec.ports[].targetPort must be a number from ${min} to ${max} other than ${except.join(', ')}`,
      protects: 'AgentHost’s own port',
    },
  ],
}

const handlers = Object.values(RUNTIME_CLASSES)
  .map(({ name, handler }) => `object.metadata.name != ${text(name)} || object.handler == ${text(handler)}`)
  .map((condition) => `(${condition})`)
  .join(' && ')

/** Of the whole cluster: a class of our name that is something else would empty the rule that asks for it. */
const RUNTIMES: AdmissionPolicy = {
  name: 'runtimes',
  scope: 'cluster',
  matches: [
    {
      apiGroup: 'node.k8s.io',
      apiVersion: 'v1',
      resources: ['runtimeclasses'],
      operations: ['CREATE', 'UPDATE'],
    },
  ],
  variables: {},
  rules: [
    {
      name: 'runtime-handler',
      expression: handlers,
      message: `handler must be what the name promises: ${Object.values(RUNTIME_CLASSES)
        .map(({ name, handler }) => `${name} is ${handler}`)
        .join(', ')}`,
      protects: 'the boundary from being deleted and made anew without one',
    },
  ],
}

export const SURROUNDING_POLICIES: readonly AdmissionPolicy[] = [SERVICES, RUNTIMES]
