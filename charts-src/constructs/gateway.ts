import { ApiObject } from 'cdk8s'
import type { Construct } from 'constructs'
import type { Environment } from '../environment/schema.ts'

const API_VERSION = 'gateway.networking.k8s.io/v1'

interface Named {
  readonly name: string
  readonly namespace: string
}

export interface GatewayProps extends Named {
  readonly settings: Environment['infra']['gateway']
  /** The host name, or one-label wildcard, that this Gateway serves. */
  readonly hostname: string
  /** The namespace whose routes may attach. @default the Gateway's namespace */
  readonly routesFrom?: string
}

/** A Gateway that serves HTTPS only. Its HTTP listener exists for the redirect. */
export class Gateway extends ApiObject {
  constructor(scope: Construct, id: string, props: GatewayProps) {
    const { name, namespace, settings, hostname, routesFrom } = props
    const matchLabels = { 'kubernetes.io/metadata.name': routesFrom ?? namespace }
    const routes = { kinds: [{ group: 'gateway.networking.k8s.io', kind: 'HTTPRoute' }] }
    super(scope, id, {
      apiVersion: API_VERSION,
      kind: 'Gateway',
      metadata: { name, namespace },
      spec: {
        gatewayClassName: settings.className,
        listeners: [
          {
            name: 'https',
            hostname,
            port: 443,
            protocol: 'HTTPS',
            tls: { mode: 'Terminate', ...certificate(settings) },
            allowedRoutes: { ...routes, namespaces: { from: 'Selector', selector: { matchLabels } } },
          },
          {
            name: 'http',
            hostname,
            port: 80,
            protocol: 'HTTP',
            allowedRoutes: { ...routes, namespaces: { from: 'Same' } },
          },
        ],
      },
    })
  }
}

function certificate({ tlsSecret, tlsOptions }: Environment['infra']['gateway']) {
  if (tlsOptions) return { options: tlsOptions }
  return { certificateRefs: [{ group: '', kind: 'Secret', name: tlsSecret }] }
}

interface RouteProps extends Named {
  readonly gateway: string
}

export interface HttpRouteProps extends RouteProps {
  readonly hostname: string
  readonly pathPrefixes: readonly string[]
  readonly backend: { readonly name: string; readonly port: number }
}

/** The public routes of a Service. No timeout, because an event stream lasts as long as its run. */
export class HttpRoute extends ApiObject {
  constructor(scope: Construct, id: string, props: HttpRouteProps) {
    const { name, namespace, gateway, hostname, pathPrefixes, backend } = props
    super(scope, id, {
      apiVersion: API_VERSION,
      kind: 'HTTPRoute',
      metadata: { name, namespace },
      spec: {
        parentRefs: [parent(gateway, 'https')],
        hostnames: [hostname],
        rules: [
          {
            matches: pathPrefixes.map((value) => ({ path: { type: 'PathPrefix', value } })),
            backendRefs: [{ group: '', kind: 'Service', weight: 1, ...backend }],
            timeouts: { request: '0s', backendRequest: '0s' },
          },
        ],
      },
    })
  }
}

/** Redirects HTTP to HTTPS for every host name of a Gateway. */
export class HttpsRedirect extends ApiObject {
  constructor(scope: Construct, id: string, { name, namespace, gateway }: RouteProps) {
    const requestRedirect = { scheme: 'https', statusCode: 301 }
    super(scope, id, {
      apiVersion: API_VERSION,
      kind: 'HTTPRoute',
      metadata: { name, namespace },
      spec: {
        parentRefs: [parent(gateway, 'http')],
        rules: [
          {
            matches: [{ path: { type: 'PathPrefix', value: '/' } }],
            filters: [{ type: 'RequestRedirect', requestRedirect }],
          },
        ],
      },
    })
  }
}

/** Lists every field, because defaults that the API server adds would show as a difference at each sync. */
function parent(name: string, sectionName: string) {
  return { group: 'gateway.networking.k8s.io', kind: 'Gateway', name, sectionName }
}
