/** Kubernetes sets this variable in every container. */
export const POD_VARIABLE = 'KUBERNETES_SERVICE_HOST'

type Env = Readonly<Record<string, string | undefined>>

/** A deployment in a pod must set one key of each entry, because the default fits a laptop only. */
const DEPLOYMENT_SETTINGS = [
  { keys: ['AGENTWEAVER_HOST'], preset: 'the service listens on loopback only' },
  { keys: ['AGENTWEAVER_STATE_DIR'], preset: 'its files are in a home folder of the image' },
  { keys: ['DATABASE_URL'], preset: 'the store is a file that is lost with the pod' },
  { keys: ['AGENTWEAVER_KEYS_DIR', 'AGENTWEAVER_KEY_VAULT'], preset: 'each pod creates its own keys' },
] as const

/**
 * Required settings that are missing in a pod, each with an error text. Empty outside a pod, and with
 * `AGENTWEAVER_SANDBOXES=local`, which asks for a laptop's service and its defaults.
 */
export function missingInPod(env: Env): { readonly key: string; readonly message: string }[] {
  if (!env[POD_VARIABLE]) return []
  if (!env['AGENTWEAVER_SANDBOXES'])
    return [
      {
        key: 'AGENTWEAVER_SANDBOXES',
        message:
          'is required in a pod: kubernetes runs each sandbox in its own pod; local runs agent commands in the pod of the service',
      },
    ]
  if (env['AGENTWEAVER_SANDBOXES'] === 'local') return []
  return DEPLOYMENT_SETTINGS.filter(({ keys }) => !keys.some((key) => env[key])).map(({ keys, preset }) => ({
    key: keys.join(' or '),
    message: `is required in a pod: by default ${preset}`,
  }))
}
