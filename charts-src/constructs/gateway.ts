import { Construct } from 'constructs'
import type { Environment } from '../environment/schema.ts'
import {
  Gateway,
  type GatewaySpecListenersTls,
  HttpRoute,
  type HttpRouteSpecParentRefs,
} from '../imports/gateway-api.js'

interface Named {
  readonly name: string
  readonly namespace: string
}

export interface HttpsGatewayProps extends Named {
  readonly settings: Environment['infra']['gateway']
  /** The host name, or one-label wildcard, that this Gateway serves. */
  readonly hostname: string
  /** The namespace whose routes may attach. @default the Gateway's namespace */
  readonly routesFrom?: string
}

/** A Gateway that serves HTTPS only. Its HTTP listener exists for the redirect. */
export class HttpsGateway extends Construct {
  constructor(scope: Construct, id: string, props: HttpsGatewayProps) {
    super(scope, id)
    const { name, namespace, settings, hostname, routesFrom } = props
    const matchLabels = { 'kubernetes.io/metadata.name': routesFrom ?? namespace }
    const kinds = [{ group: 'gateway.networking.k8s.io', kind: 'HTTPRoute' }]
    new Gateway(this, 'Resource', {
      metadata: { name, namespace },
      spec: {
        gatewayClassName: settings.className,
        listeners: [
          {
            name: 'https',
            hostname,
            port: 443,
            protocol: 'HTTPS',
            tls: certificate(settings),
            allowedRoutes: { kinds, namespaces: { from: 'Selector', selector: { matchLabels } } },
          },
          {
            name: 'http',
            hostname,
            port: 80,
            protocol: 'HTTP',
            allowedRoutes: { kinds, namespaces: { from: 'Same' } },
          },
        ],
      },
    })
  }
}

function certificate({ tlsSecret, tlsOptions }: Environment['infra']['gateway']): GatewaySpecListenersTls {
  if (tlsOptions) return { mode: 'Terminate', options: tlsOptions }
  return { mode: 'Terminate', certificateRefs: [{ group: '', kind: 'Secret', name: tlsSecret ?? '' }] }
}

interface RouteProps extends Named {
  readonly gateway: string
}

export interface ServiceRouteProps extends RouteProps {
  readonly hostname: string
  readonly pathPrefixes: readonly string[]
  readonly backend: { readonly name: string; readonly port: number }
}

/** The public routes of a Service. No timeout, because an event stream lasts as long as its run. */
export class ServiceRoute extends Construct {
  constructor(scope: Construct, id: string, props: ServiceRouteProps) {
    super(scope, id)
    const { name, namespace, gateway, hostname, pathPrefixes, backend } = props
    new HttpRoute(this, 'Resource', {
      metadata: { name, namespace },
      spec: {
        parentRefs: [parent(gateway, 'https')],
        hostnames: [hostname],
        rules: [
          {
            matches: pathPrefixes.map((value) => ({ path: { type: 'PathPrefix', value } })),
            backendRefs: [{ group: '', kind: 'Service', weight: 1, name: backend.name, port: backend.port }],
            timeouts: { request: '0s', backendRequest: '0s' },
          },
        ],
      },
    })
  }
}

/** Redirects HTTP to HTTPS for every host name of a Gateway. */
export class HttpsRedirect extends Construct {
  constructor(scope: Construct, id: string, { name, namespace, gateway }: RouteProps) {
    super(scope, id)
    new HttpRoute(this, 'Resource', {
      metadata: { name, namespace },
      spec: {
        parentRefs: [parent(gateway, 'http')],
        rules: [
          {
            matches: [{ path: { type: 'PathPrefix', value: '/' } }],
            filters: [{ type: 'RequestRedirect', requestRedirect: { scheme: 'https', statusCode: 301 } }],
          },
        ],
      },
    })
  }
}

/** Lists every field, because defaults that the API server adds would show as a difference at each sync. */
function parent(name: string, sectionName: string): HttpRouteSpecParentRefs {
  return { group: 'gateway.networking.k8s.io', kind: 'Gateway', name, sectionName }
}
