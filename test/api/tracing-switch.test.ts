import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { isTracingOn } from '../../runtime/api/tracing/tracing.ts'
import { packagesOf } from '../helpers/loaded-by.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }

it.each([
  [{}, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, false],
  [ENDPOINT, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, true],
  [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }, false],
  [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, false],
])('with %j traces are on: %s', (env, isOn) => {
  expect(isTracingOn(env)).toBe(isOn)
})

it('loads no library of OpenTelemetry with the service, only with the traces', () => {
  expect(packagesOf('runtime/api/server.ts', '@opentelemetry/')).toEqual([])
  expect(packagesOf('runtime/api/tracing/open-tracing.ts', '@opentelemetry/')).toContain('@opentelemetry/api')
  expect(readFileSync('runtime/api/server.ts', 'utf8')).toContain("import('./tracing/open-tracing.ts')")
})
