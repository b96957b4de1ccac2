import * as z from 'zod'
import { hasUsablePort, isServerUrl } from './server-url.ts'

const SERVICE = /^http:\/\/([a-z0-9-]{1,63})\.([a-z0-9-]{1,63})\.svc\.cluster\.local:(\d{1,5})$/

/** Where the API sends OpenTelemetry traces. */
export const Traces = z.strictObject({
  /** An OTLP/HTTP collector: a Service of the cluster, or a host with TLS. `/v1/traces` is added. */
  collector: z
    .string()
    .max(300)
    .refine(
      (url) => (SERVICE.test(url) && hasUsablePort(url)) || isServerUrl(url),
      'must be http://NAME.NAMESPACE.svc.cluster.local:PORT, or an https URL with a host name in lower case',
    ),
  /** The share of traces that is sent. A trace that a client has begun is sent if the client says so. @default 1 */
  share: z.number().min(0).max(1).optional(),
})
export type Traces = z.infer<typeof Traces>

export interface Collector {
  readonly host: string
  readonly port: number
  /** The namespace of a Service. */
  readonly namespace: string | undefined
}

export function collectorOf({ collector }: Traces): Collector {
  const { hostname: host, port } = new URL(collector)
  const [, , namespace] = SERVICE.exec(collector) ?? []
  return { host, port: Number(port || (namespace === undefined ? 443 : 80)), namespace }
}
