/** A change to a valid object that every rule accepts, and the reason why it is safe. */
export interface Neutral {
  readonly fields: string
  readonly pattern: RegExp
  readonly why: string
}

export const NEUTRAL_POD_MUTANTS: readonly Neutral[] = [
  {
    fields:
      'a container’s `runAsGroup`, `runAsNonRoot` or `seccompProfile`, or the pod’s, left out or changed',
    pattern: /securityContext\.(runAsUser|runAsGroup|runAsNonRoot|seccompProfile)( removed|: )/,
    why: 'pod and container can both set them; the rules check the effective value of every container',
  },
  {
    fields: '`privileged: false` left out',
    pattern: /securityContext\.privileged removed/,
    why: 'Kubernetes defaults to false',
  },
  {
    fields: 'a further capability dropped',
    pattern: /capabilities\.drop\[1\]/,
    why: 'all are dropped',
  },
  {
    fields: 'probe paths, ports, schemes, headers and times',
    pattern: /(startup|readiness|liveness)Probe/,
    why: 'a probe connects only to the sandbox itself',
  },
  {
    fields: '`workingDir` below none of /proc, /sys, /dev',
    pattern: /workingDir/,
    why: 'a folder of the image or a volume',
  },
  {
    fields: '`command`, `args` and plain values of `env`',
    pattern: /\.(command|args|env)\b/,
    why: 'they come from the template, which only the GitOps identity writes, and run inside the same boundary',
  },
  {
    fields: '`ports`, without a host port',
    pattern: /\.ports/,
    why: 'only a declaration; network policies decide which ports are reachable',
  },
  {
    fields: 'sizes: `requests`, `limits`, `sizeLimit`',
    pattern:
      /resources\.(requests|limits)\.(cpu|memory|ephemeral-storage)|emptyDir\.sizeLimit|resources\.requests removed/,
    why: 'they are required; LimitRange and ResourceQuota bound the amounts',
  },
  {
    fields: '`imagePullPolicy`, `terminationMessagePath`, `terminationMessagePolicy`',
    pattern: /imagePullPolicy|terminationMessage/,
    why: 'the image is pinned by digest; the termination message is a file in the container',
  },
  {
    fields: 'a volume that is not mounted, or mounted read-only',
    pattern:
      /volumes\[8\]: .*"emptyDir":\{"sizeLimit"|volumeMounts( removed|\[[a-z-]+\]( removed|\.readOnly))|persistentVolumeClaim\.readOnly: true/,
    why: 'grants less access',
  },
  {
    fields:
      'file names and modes of tokens and keys; a missing token, or a longer lifetime of at most one hour',
    pattern:
      /projected\.(sources\[0\]( removed|\.serviceAccountToken\.(path|expirationSeconds))|defaultMode)|configMap\.defaultMode/,
    why: 'only agent-host may mount them',
  },
  {
    fields: 'a toleration of the sandbox nodes that is wider or missing',
    pattern: /tolerations( removed|\[0\])/,
    why: 'node affinity decides where the pod runs; only the taint keys of sandbox nodes are accepted',
  },
  {
    fields: '`nodeSelector`, and further required expressions',
    pattern: /nodeSelector:|matchExpressions\[1\]/,
    why: 'they only narrow the set of nodes',
  },
  {
    fields: 'a shorter termination grace period, or none',
    pattern: /terminationGracePeriodSeconds/,
    why: 'within the limit',
  },
  {
    fields: 'resolver options',
    pattern: /dnsConfig( removed|\.options)/,
    why: 'they change how names are resolved, not by which resolver',
  },
  {
    fields: '`app.kubernetes.io/*` labels and the controller’s annotations',
    pattern: /metadata\.(labels\.app\.kubernetes\.io|annotations)/,
    why: 'network policies select by class',
  },
  {
    fields: 'an explicit `shareProcessNamespace: false`',
    pattern: /shareProcessNamespace: false/,
    why: 'Kubernetes defaults to false',
  },
]

export const NEUTRAL_CLAIM_MUTANTS: readonly Neutral[] = [
  {
    fields: '`lifecycle.ttlSecondsAfterFinished`',
    pattern: /ttlSecondsAfterFinished/,
    why: 'it only ends a claim earlier than `shutdownTime`, which is required',
  },
  {
    fields: 'labels set at creation',
    pattern: /metadata\.labels/,
    why: 'only the API creates claims, and no policy selects by them',
  },
  {
    fields: 'explicit `additionalPodMetadata: {}` and `env: []`',
    pattern: /additionalPodMetadata: \{\}|additionalPodMetadata: \{"(labels|annotations)":\{\}\}/,
    why: 'empty, like the value that the controller writes',
  },
]

export const NEUTRAL_RUNNING_MUTANTS: readonly Neutral[] = [
  {
    fields: 'annotations that the controller writes',
    pattern: /metadata\.annotations/,
    why: 'the controller records its own state there',
  },
]

export const NEUTRAL_STANDING_MUTANTS: readonly Neutral[] = [
  {
    fields: 'an explicit `additionalPodMetadata: {}`',
    pattern: /additionalPodMetadata: \{\}/,
    why: 'empty, like the value that the controller writes',
  },
]

export const NEUTRAL_TEMPLATE_MUTANTS: readonly Neutral[] = [
  {
    fields: 'an explicit `service: false`',
    pattern: /service: false/,
    why: 'no Service is created',
  },
  {
    fields: '`volumeClaimTemplates`',
    pattern: /volumeClaimTemplates/,
    why: 'each sandbox gets its own volume; a pod may mount no other, and only as its workspace',
  },
]
