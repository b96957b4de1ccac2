import { CLASS_LABEL } from '../../../contracts/labels.ts'
import { byBreakGlass, byCollector, byController, byScheduler } from '../actors.ts'
import { changedKeys, listed, text } from '../cel.ts'
import type { AdmissionPolicy } from '../rule.ts'
import { CONTAINER_SHAPE } from './containers.ts'
import { IDENTITY } from './identity.ts'
import { CHANGED_METADATA, METADATA_BEFORE_VARIABLES, METADATA_VARIABLES, NEW_METADATA } from './metadata.ts'
import { PLACEMENT } from './placement.ts'
import { PRIVILEGES } from './privileges.ts'
import { VOLUMES } from './volumes.ts'

const CORE = { apiGroup: '', apiVersion: 'v1' } as const

/**
 * Uses `dyn` only where lists of different types are joined. Everything else is typed, so that the type check of the
 * API server finds a misspelt field.
 */
const SHAPE_VARIABLES = {
  ...METADATA_VARIABLES,
  class: `variables.labels[?${text(CLASS_LABEL)}].orValue('')`,
  audiences: `variables.class == 'agent' ? ${listed('agentAudiences')} : ${listed('commandAudiences')}`,
  ephemeral: 'dyn(object.spec.?ephemeralContainers.orValue([]))',
  regular: 'dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))',
  all: 'dyn(variables.regular) + variables.ephemeral',
  volumes: 'dyn(object.spec.?volumes.orValue([]))',
  tokens: 'variables.volumes.filter(v, has(v.projected))',
}

/**
 * The shape of a sandbox, checked when a pod is created and when an ephemeral container is added. Other updates are not
 * checked: a changed parameter would otherwise keep the controller from ending a running pod.
 */
const SHAPE: AdmissionPolicy = {
  name: 'sandbox-shape',
  scope: 'sandboxes',
  matches: [
    { ...CORE, resources: ['pods'], operations: ['CREATE'] },
    { ...CORE, resources: ['pods/ephemeralcontainers'], operations: ['UPDATE'] },
  ],
  variables: SHAPE_VARIABLES,
  rules: [...PLACEMENT, ...IDENTITY, ...PRIVILEGES, ...CONTAINER_SHAPE, ...VOLUMES, ...NEW_METADATA],
}

const MAKERS: AdmissionPolicy = {
  name: 'sandbox-makers',
  scope: 'sandboxes',
  matches: [{ ...CORE, resources: ['pods'], operations: ['CREATE'] }],
  variables: {},
  rules: [
    {
      name: 'pod-maker',
      expression: byController,
      message:
        'only the agent-sandbox controller may create pods in this namespace: create a SandboxClaim instead',
      risk: 'pods that follow no template could run among the sandboxes',
    },
  ],
}

const CHANGES: AdmissionPolicy = {
  name: 'sandbox-changes',
  scope: 'sandboxes',
  matches: [
    {
      ...CORE,
      resources: ['pods', 'pods/status', 'pods/ephemeralcontainers', 'pods/resize'],
      operations: ['UPDATE'],
    },
  ],
  variables: METADATA_BEFORE_VARIABLES,
  rules: [
    {
      name: 'pod-changer',
      expression: `request.?subResource.orValue('') != '' || ${byController} || ${byCollector}`,
      message: 'only the agent-sandbox controller may change pods in this namespace',
      risk: 'other identities could change labels, owners and images of running sandboxes',
    },
    {
      name: 'pod-spec-frozen',
      expression: "request.?subResource.orValue('') != '' || object.spec == oldObject.spec",
      offenders: `${changedKeys('dyn(oldObject.spec)', 'dyn(object.spec)')}.map(k, 'spec.' + string(k))`,
      message: 'cannot change in a running sandbox: delete its claim and create a new one',
      risk: 'a running sandbox could change to a specification that was not checked, for example to another image',
    },
    {
      name: 'pod-resize',
      expression: "request.?subResource.orValue('') != 'resize'",
      message: 'a sandbox cannot be resized: its virtual machine has a fixed size',
      risk: 'a sandbox could exceed the limits that were checked at its creation',
    },
    ...CHANGED_METADATA,
  ],
}

const BINDING: AdmissionPolicy = {
  name: 'sandbox-binding',
  scope: 'sandboxes',
  matches: [{ ...CORE, resources: ['pods/binding', 'bindings'], operations: ['CREATE'] }],
  variables: {},
  rules: [
    {
      name: 'pod-binder',
      expression: byScheduler,
      message:
        'only the scheduler may bind pods of this namespace to nodes: a binding bypasses taints and can add labels',
      risk: 'other identities could choose the node of a pod and add labels to it',
    },
  ],
}

const DEBUG: AdmissionPolicy = {
  name: 'ephemeral-containers',
  scope: 'slice',
  matches: [{ ...CORE, resources: ['pods/ephemeralcontainers'], operations: ['UPDATE'] }],
  variables: {},
  rules: [
    {
      name: 'ephemeral-containers',
      expression: byBreakGlass,
      message: 'only the break-glass group may add ephemeral containers',
      risk: 'other identities could read memory and credentials of running pods',
    },
  ],
}

export const POD_POLICIES: readonly AdmissionPolicy[] = [MAKERS, SHAPE, CHANGES, BINDING, DEBUG]
