import { messageOf, SandboxError } from '../../../kit/errors.ts'

/** What is needed to talk to an API server as one account. */
export interface KubeConnection {
  readonly server: string
  readonly tls: KubeTls
  /** Headers that prove who we are. `fresh` asks for them again, after a refusal. */
  authenticate(fresh?: boolean): Promise<Readonly<Record<string, string>>>
}

interface KubeTls {
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly rejectUnauthorized?: boolean
  readonly servername?: string
}

/** The library reads a rotated token at most once a minute; asking it for every request would cost an agent each. */
const HEADERS_MS = 20_000

const TLS_KEYS = ['ca', 'cert', 'key', 'rejectUnauthorized', 'servername'] as const

type Source = { readonly kind: 'file'; readonly path: string } | { readonly kind: 'in-cluster' }

/**
 * Reads a kubeconfig, or the pod's own account. Configuration and authentication are the library's: certificates,
 * tokens, rotated token files, exec plugins. It is loaded here alone, as it costs a laptop's service 90 MB.
 */
export async function loadKubeConnection(source: Source): Promise<KubeConnection> {
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  try {
    if (source.kind === 'file') config.loadFromFile(source.path)
    else config.loadFromCluster()
  } catch (error) {
    throw unreadable(source, error)
  }
  const server = config.getCurrentCluster()?.server
  if (!server) throw new SandboxError('invalid_config', 'the kubeconfig has no current context with a server')

  const ask = async () => {
    const options: Record<string, unknown> & { headers: Record<string, string> } = { headers: {} }
    await config.applyToHTTPSOptions(options)
    return options
  }
  const first = await ask()
  let headers = first.headers
  let askedAt = performance.now()
  return {
    server: server.replace(/\/$/, ''),
    tls: pickTls(first),
    async authenticate(fresh = false) {
      if (fresh || performance.now() - askedAt > HEADERS_MS) {
        headers = (await ask()).headers
        askedAt = performance.now()
      }
      return headers
    },
  }
}

function pickTls(options: Readonly<Record<string, unknown>>): KubeTls {
  return Object.fromEntries(
    TLS_KEYS.filter((key) => options[key] !== undefined && options[key] !== null).map((key) => [
      key,
      options[key],
    ]),
  )
}

function unreadable(source: Source, cause: unknown): SandboxError {
  const what = source.kind === 'file' ? `the kubeconfig ${source.path}` : 'the account of this pod'
  return new SandboxError('invalid_config', `${what} cannot be read: ${messageOf(cause)}`, { cause })
}
