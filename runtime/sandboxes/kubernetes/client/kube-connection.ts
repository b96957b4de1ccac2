import { messageOf, SandboxError } from '../../../kit/errors.ts'

/** Address and credentials of an API server. */
export interface KubeConnection {
  readonly server: string
  readonly tls: KubeTls
  /** Authentication headers. `fresh` bypasses the cache, after a 401. */
  authenticate(fresh?: boolean): Promise<Readonly<Record<string, string>>>
}

interface KubeTls {
  readonly ca?: string | Buffer
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly rejectUnauthorized?: boolean
  readonly servername?: string
}

/** Headers are cached, because the library creates an HTTP agent per call. It rereads a rotated token once a minute. */
const HEADERS_MS = 20_000

const TLS_KEYS = ['ca', 'cert', 'key', 'rejectUnauthorized', 'servername'] as const

type Source = { readonly kind: 'file'; readonly path: string } | { readonly kind: 'in-cluster' }

/**
 * Reads a kubeconfig or the pod's service account. `@kubernetes/client-node` handles certificates, tokens, token rotation and
 * exec plugins. It is loaded only here, because it costs 90 MB of memory.
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
  const what = source.kind === 'file' ? `the kubeconfig ${source.path}` : 'the service account of this pod'
  return new SandboxError('invalid_config', `${what} cannot be read: ${messageOf(cause)}`, { cause })
}
