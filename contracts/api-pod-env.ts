/** Kubernetes sets this variable in every container. */
export const POD_VARIABLE = 'KUBERNETES_SERVICE_HOST'

type Env = Readonly<Record<string, string | undefined>>

/** What a deployment of the API must say: one of the keys each. Every default is right on a laptop alone. */
const DEPLOYMENT_SETTINGS = [
  { keys: ['AGENTWEAVER_HOST'], preset: 'the service listens for its own pod alone' },
  { keys: ['AGENTWEAVER_STATE_DIR'], preset: 'its files are in a home folder of the image' },
  { keys: ['DATABASE_URL'], preset: 'the store is a file that is gone with the pod' },
  { keys: ['AGENTWEAVER_KEYS_DIR', 'AGENTWEAVER_KEY_VAULT'], preset: 'each pod makes keys of its own' },
] as const

/**
 * Settings that a service in a pod must be given and is not, each with a sentence for people; none outside of a pod. With
 * `AGENTWEAVER_SANDBOXES=local` a person asks for a laptop's service there, and gets its defaults.
 */
export function missingInPod(env: Env): { readonly key: string; readonly message: string }[] {
  if (!env[POD_VARIABLE]) return []
  if (!env['AGENTWEAVER_SANDBOXES'])
    return [
      {
        key: 'AGENTWEAVER_SANDBOXES',
        message:
          'must be given in a pod: kubernetes for sandboxes in pods of their own, or local to run commands of agents in the pod of the service, as the default would',
      },
    ]
  if (env['AGENTWEAVER_SANDBOXES'] === 'local') return []
  return DEPLOYMENT_SETTINGS.filter(({ keys }) => !keys.some((key) => env[key])).map(({ keys, preset }) => ({
    key: keys.join(' or '),
    message: `must be given in a pod: by default ${preset}`,
  }))
}
