import { parse } from 'yaml'

interface User {
  readonly exec?: { readonly apiVersion: string; readonly command: string; readonly args: readonly string[] }
  readonly [key: string]: unknown
}
interface Kubeconfig {
  readonly clusters: readonly object[]
  readonly contexts: readonly object[]
  readonly 'current-context': string
  readonly users: readonly { readonly name: string; readonly user: User }[]
}

/** Identity of the AKS server application, the same in every tenant. */
const AKS_SERVER = '6dae42f8-4368-4678-94ff-3960e28e3630'

/**
 * Converts the user kubeconfig of Azure (base64) for use without a person, because its default login needs a code in a
 * browser. Rejects a kubeconfig with a user's token, key or certificate, because it would be stored in the state.
 */
export function parseKubeconfig(answered: string): string {
  const config = parse(Buffer.from(answered, 'base64').toString('utf8')) as Kubeconfig | null
  if (!config?.users?.length) throw new Error('Azure returned no credentials for the cluster')
  const users = config.users.map(({ name, user }) => {
    const others = Object.keys(user).filter((key) => key !== 'exec')
    if (user.exec === undefined || others.length > 0) {
      throw new Error(`the credential of ${name} is not an Entra login: is "disableLocalAccounts" on?`)
    }
    return {
      name,
      user: { exec: { ...user.exec, command: 'kubelogin', args: LOGIN, interactiveMode: 'Never' } },
    }
  })
  return JSON.stringify({ ...config, users })
}

/**
 * On a laptop `kubelogin` uses the login of `az`. A workflow sets AAD_LOGIN_METHOD=workloadidentity, which takes
 * precedence over the arguments of `kubelogin`, so the kubeconfig in the state is the same in both places. The login of
 * `az` does not work in a workflow: its assertion is valid for minutes (kubelogin#353), and a cluster takes longer.
 */
const LOGIN = ['get-token', '--login', 'azurecli', '--server-id', AKS_SERVER]
