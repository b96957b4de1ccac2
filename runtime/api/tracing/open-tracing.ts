import {
  type Context,
  defaultTextMapGetter,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
} from '@opentelemetry/api'
import { setGlobalErrorHandler, W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources'
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { messageOf } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { VERSION } from '../version.ts'
import { RunSpans } from './run-spans.ts'
import type { RequestSpan, Tracing } from './tracing.ts'

const SERVICE = 'agentweaver-api'
/** The collector may be away for hours. */
const LOG_EVERY_MS = 60_000
const CLOSE_MS = 3_000

const propagator = new W3CTraceContextPropagator()

const parentOf = (traceparent: string | undefined, tracestate?: string): Context =>
  traceparent === undefined
    ? ROOT_CONTEXT
    : propagator.extract(
        ROOT_CONTEXT,
        { traceparent, ...(tracestate && { tracestate }) },
        defaultTextMapGetter,
      )

/** Sends traces over OTLP/HTTP. The exporter, the sampler and the batches follow the standard variables `OTEL_*`. */
export function openTracing(log: Log): Tracing {
  logFailures(log)
  const service = resourceFromAttributes({ 'service.name': SERVICE, 'service.version': VERSION })
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(service)
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  })
  const tracer = provider.getTracer(SERVICE, VERSION)
  const runs = new RunSpans(tracer, parentOf)
  return {
    startRequest(request) {
      const span = tracer.startSpan(
        `${request.method} ${request.route}`,
        {
          kind: SpanKind.SERVER,
          attributes: { 'http.request.method': request.method, 'http.route': request.route },
        },
        parentOf(request.traceparent, request.tracestate),
      )
      return requestSpan(span)
    },
    note: (event) => runs.note(event),
    async close() {
      const late = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_MS).unref())
      await Promise.race([provider.shutdown().catch(() => undefined), late])
    },
  }
}

function requestSpan(span: Span): RequestSpan {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    end(status) {
      span.setAttribute('http.response.status_code', status)
      if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
      span.end()
    },
  }
}

/** A collector that is away costs a warning a minute, and nothing else. */
function logFailures(log: Log): void {
  let loggedAt = Number.NEGATIVE_INFINITY
  setGlobalErrorHandler((error) => {
    const now = performance.now()
    if (now - loggedAt < LOG_EVERY_MS) return
    loggedAt = now
    const reason = typeof error === 'string' ? error : messageOf(error)
    log.warn('traces could not be sent', { error: reason })
  })
}
