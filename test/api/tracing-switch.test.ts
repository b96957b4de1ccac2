import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { isTracingOn } from '../../runtime/api/tracing/tracing.ts'

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

it('loads the libraries with a dynamic import only', () => {
  const files = readdirSync('runtime', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )
  const loading = files.filter((name) =>
    readFileSync(join('runtime', name), 'utf8').includes('open-tracing.ts'),
  )

  expect(loading).toEqual([join('api', 'server.ts')])
  expect(readFileSync('runtime/api/server.ts', 'utf8')).toMatch(
    /await import\('\.\/tracing\/open-tracing\.ts'\)/,
  )
})
