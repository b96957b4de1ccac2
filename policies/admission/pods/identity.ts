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
    risk: 'network policies would not select the sandbox',
  },
  {
    name: 'pod-service-account',
    expression: `object.spec.?serviceAccountName.orValue('') == (variables.class == 'agent' ? params.data.agentAccount : params.data.commandAccount)`,
    message: `spec.serviceAccountName must be the account of the pod’s class (label ${CLASS_LABEL})`,
    risk: 'a command sandbox could use the Azure identity of agents, and any sandbox an account with rights in the cluster',
  },
  {
    name: 'pod-automount',
    expression: 'object.spec.?automountServiceAccountToken.orValue(true) == false',
    message:
      'spec.automountServiceAccountToken must be false: a sandbox has no credential of the Kubernetes API',
    risk: 'the sandbox would hold a credential of the Kubernetes API',
  },
  {
    name: 'pod-service-links',
    expression: 'object.spec.?enableServiceLinks.orValue(true) == false',
    message:
      'spec.enableServiceLinks must be false: the environment would list every Service of the namespace',
    risk: 'the sandbox could read the names and addresses of all Services of its namespace',
  },
  {
    name: 'token-source',
    expression:
      "variables.tokens.all(v, dyn(v.projected).?sources.orValue([]).all(s, s.all(k, k == 'serviceAccountToken')))",
    offenders:
      "variables.tokens.filter(v, !dyn(v.projected).?sources.orValue([]).all(s, s.all(k, k == 'serviceAccountToken'))).map(v, 'volume ' + string(v.name))",
    message:
      'spec.volumes[].projected.sources may only hold serviceAccountToken: no Secret, ConfigMap, certificate or downward API',
    risk: 'the sandbox could read Secrets and certificates of the namespace',
  },
  {
    name: 'token-audience',
    expression:
      "variables.tokens.all(v, dyn(v.projected).?sources.orValue([]).all(s, s.?serviceAccountToken.?audience.orValue('') in variables.audiences))",
    offenders:
      "variables.tokens.filter(v, !dyn(v.projected).?sources.orValue([]).all(s, s.?serviceAccountToken.?audience.orValue('') in variables.audiences)).map(v, 'volume ' + string(v.name))",
    message:
      'spec.volumes[].projected.sources[].serviceAccountToken.audience must be one of the audiences of the pod’s class: a token without an audience is valid for the Kubernetes API',
    risk: 'the token would be valid for the Kubernetes API, or for another service that trusts tokens of this cluster',
  },
  {
    name: 'token-lifetime',
    expression: `variables.tokens.all(v, dyn(v.projected).?sources.orValue([]).all(s, s.?serviceAccountToken.?expirationSeconds.orValue(3600) <= ${MAX_TOKEN_SECONDS}))`,
    message: `spec.volumes[].projected.sources[].serviceAccountToken.expirationSeconds must be at most ${MAX_TOKEN_SECONDS}`,
    risk: 'a stolen token would stay valid for longer than an hour',
  },
  eachContainer({
    name: 'token-container',
    permits: `c.name == '${CONTAINERS.agentHost}' || c.?volumeMounts.orValue([]).all(m, !${isToken('m')})`,
    message: `only ${CONTAINERS.agentHost} may mount a projected token: remove it from volumeMounts`,
    risk: 'commands of the agent could read the tokens',
  }),
]
