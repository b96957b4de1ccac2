import { CLASS_LABEL } from '../../../contracts/labels.ts'
import { CONTAINERS, SandboxKind } from '../../../contracts/names.ts'
import { eachContainer, list } from '../cel.ts'
import type { AdmissionRule } from '../rule.ts'

/** Azure's token exchange needs at most an hour; the kubelet renews the token long before. */
const MAX_TOKEN_SECONDS = 3600
const isToken = (mount: string) => `variables.tokens.exists(v, v.name == ${mount}.name)`

/** The identity of a sandbox: its class, service account and tokens, and the container that mounts the tokens. */
export const IDENTITY: readonly AdmissionRule[] = [
  {
    name: 'pod-class',
    expression: `variables.class in ${list(SandboxKind.options)}`,
    message: `metadata.labels must have ${CLASS_LABEL}: ${SandboxKind.options.join(' or ')}: network policies select by it`,
    protects: 'that network policies select every sandbox, from its birth',
  },
  {
    name: 'pod-service-account',
    expression: `object.spec.?serviceAccountName.orValue('') == (variables.class == 'agent' ? params.data.agentAccount : params.data.commandAccount)`,
    message: `spec.serviceAccountName must be the account of the pod’s class (label ${CLASS_LABEL})`,
    protects:
      'the Azure identity of agents from sandboxes without one; accounts with rights in the cluster from both',
  },
  {
    name: 'pod-automount',
    expression: 'object.spec.?automountServiceAccountToken.orValue(true) == false',
    message:
      'spec.automountServiceAccountToken must be false: a sandbox has no credential of the Kubernetes API',
    protects: 'the Kubernetes API',
  },
  {
    name: 'pod-service-links',
    expression: 'object.spec.?enableServiceLinks.orValue(true) == false',
    message:
      'spec.enableServiceLinks must be false: the environment would list every Service of the namespace',
    protects: 'what a sandbox learns of its surroundings',
  },
  {
    name: 'token-source',
    expression:
      "variables.tokens.all(v, dyn(v.projected).?sources.orValue([]).all(s, s.all(k, k == 'serviceAccountToken')))",
    offenders:
      "variables.tokens.filter(v, !dyn(v.projected).?sources.orValue([]).all(s, s.all(k, k == 'serviceAccountToken'))).map(v, 'volume ' + string(v.name))",
    message:
      'spec.volumes[].projected.sources may only hold serviceAccountToken: no Secret, ConfigMap, certificate or downward API',
    protects: 'Secrets and certificates of the namespace',
  },
  {
    name: 'token-audience',
    expression:
      "variables.tokens.all(v, dyn(v.projected).?sources.orValue([]).all(s, s.?serviceAccountToken.?audience.orValue('') in variables.audiences))",
    offenders:
      "variables.tokens.filter(v, !dyn(v.projected).?sources.orValue([]).all(s, s.?serviceAccountToken.?audience.orValue('') in variables.audiences)).map(v, 'volume ' + string(v.name))",
    message:
      'spec.volumes[].projected.sources[].serviceAccountToken.audience must be one of the pod’s class: a token without an audience opens the Kubernetes API',
    protects: 'the Kubernetes API, and every service that trusts tokens of this cluster',
  },
  {
    name: 'token-lifetime',
    expression: `variables.tokens.all(v, dyn(v.projected).?sources.orValue([]).all(s, s.?serviceAccountToken.?expirationSeconds.orValue(3600) <= ${MAX_TOKEN_SECONDS}))`,
    message: `spec.volumes[].projected.sources[].serviceAccountToken.expirationSeconds must be at most ${MAX_TOKEN_SECONDS}`,
    protects: 'against a stolen token that lives on',
  },
  eachContainer({
    name: 'token-container',
    permits: `c.name == '${CONTAINERS.agentHost}' || c.?volumeMounts.orValue([]).all(m, !${isToken('m')})`,
    message: `only ${CONTAINERS.agentHost} may mount a projected token: remove it from volumeMounts`,
    protects: 'the tokens from what the agent runs',
  }),
]
