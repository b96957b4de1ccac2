/** Fields that no rule speaks of, by the mutants that pass, and why that is no weakness. */
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
    why: 'said twice; the rules are about what holds in the end, for every container',
  },
  {
    fields: '`privileged: false` left out',
    pattern: /securityContext\.privileged removed/,
    why: 'false is what Kubernetes takes',
  },
  {
    fields: 'a further capability dropped',
    pattern: /capabilities\.drop\[1\]/,
    why: 'all are dropped',
  },
  {
    fields: 'probe paths, ports, schemes, headers and times',
    pattern: /(startup|readiness|liveness)Probe/,
    why: 'the probe asks the sandbox itself, whatever it asks',
  },
  {
    fields: '`workingDir` below none of /proc, /sys, /dev',
    pattern: /workingDir/,
    why: 'a folder of the image or a volume',
  },
  {
    fields: '`command`, `args` and plain values of `env`',
    pattern: /\.(command|args|env)\b/,
    why: 'they are the template’s, which only the GitOps identity writes, and run in the same boundary',
  },
  {
    fields: '`ports`, without a host port',
    pattern: /\.ports/,
    why: 'a declaration; network policies decide what is reached',
  },
  {
    fields: 'sizes: `requests`, `limits`, `sizeLimit`',
    pattern:
      /resources\.(requests|limits)\.(cpu|memory|ephemeral-storage)|emptyDir\.sizeLimit|resources\.requests removed/,
    why: 'they have to be there; how much is bounded by LimitRange and ResourceQuota',
  },
  {
    fields: '`imagePullPolicy`, `terminationMessagePath`, `terminationMessagePolicy`',
    pattern: /imagePullPolicy|terminationMessage/,
    why: 'the image is named by its digest; the message is the container’s own file',
  },
  {
    fields: 'a volume that is not mounted, or mounted read-only',
    pattern:
      /volumes\[8\]: .*"emptyDir":\{"sizeLimit"|volumeMounts( removed|\[[a-z-]+\]( removed|\.readOnly))|persistentVolumeClaim\.readOnly: true/,
    why: 'less than was allowed',
  },
  {
    fields:
      'file names and modes of tokens and keys; a token that is left out or lives longer, within the hour',
    pattern:
      /projected\.(sources\[0\]( removed|\.serviceAccountToken\.(path|expirationSeconds))|defaultMode)|configMap\.defaultMode/,
    why: 'only agent-host mounts them',
  },
  {
    fields: 'a toleration of the sandbox nodes that is wider or missing',
    pattern: /tolerations( removed|\[0\])/,
    why: 'affinity decides where it may run; the key is on the list',
  },
  {
    fields: '`nodeSelector`, and further required expressions',
    pattern: /nodeSelector:|matchExpressions\[1\]/,
    why: 'they only narrow',
  },
  {
    fields: 'a shorter termination grace, or none said',
    pattern: /terminationGracePeriodSeconds/,
    why: 'within the bound',
  },
  {
    fields: 'options of the resolver',
    pattern: /dnsConfig( removed|\.options)/,
    why: 'they change how names are asked, not whom',
  },
  {
    fields: '`app.kubernetes.io/*` labels and the controller’s annotations',
    pattern: /metadata\.(labels\.app\.kubernetes\.io|annotations)/,
    why: 'network policies select by class',
  },
  {
    fields: '`shareProcessNamespace: false` written out',
    pattern: /shareProcessNamespace: false/,
    why: 'false is what Kubernetes takes',
  },
]

export const NEUTRAL_CLAIM_MUTANTS: readonly Neutral[] = [
  {
    fields: '`lifecycle.ttlSecondsAfterFinished`',
    pattern: /ttlSecondsAfterFinished/,
    why: 'it only ends a claim earlier than `shutdownTime`, which is required',
  },
  {
    fields: 'labels of the API’s own at creation',
    pattern: /metadata\.labels/,
    why: 'only the API creates claims, and no policy selects by them',
  },
  {
    fields: '`additionalPodMetadata: {}` and `env: []` written out',
    pattern: /additionalPodMetadata: \{\}|additionalPodMetadata: \{"(labels|annotations)":\{\}\}/,
    why: 'empty, as the controller writes it',
  },
]

export const NEUTRAL_RUNNING_MUTANTS: readonly Neutral[] = [
  {
    fields: 'the controller’s own labels and annotations, by the controller',
    pattern: /metadata\.annotations/,
    why: 'it records on pods what it knows of them',
  },
]

export const NEUTRAL_STANDING_MUTANTS: readonly Neutral[] = [
  {
    fields: '`additionalPodMetadata: {}` written out',
    pattern: /additionalPodMetadata: \{\}/,
    why: 'empty, as the controller writes it',
  },
]

export const NEUTRAL_TEMPLATE_MUTANTS: readonly Neutral[] = [
  {
    fields: '`service: false` written out',
    pattern: /service: false/,
    why: 'none is made',
  },
  {
    fields: '`volumeClaimTemplates`',
    pattern: /volumeClaimTemplates/,
    why: 'each sandbox gets a volume of its own from it; a pod may mount no other, and only as its workspace',
  },
]
