import { expect, it } from 'vitest'
import { z } from 'zod'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import { ApiEnv } from '../../contracts/api-env.ts'
import { aTree, environmentText, mistakesWith, objectIn } from './fixture.ts'

const Container = z.object({
  env: z.array(z.object({ name: z.string(), value: z.string().optional() })).default([]),
})
/** The part of the Deployment that this test reads. */
const Deployment = z.object({
  spec: z.object({ template: z.object({ spec: z.object({ containers: z.array(Container) }) }) }),
})

/** The variables of the API, if `sizes.api` has these values. */
function variablesWith(api: object): Readonly<Record<string, string>> {
  const value = JSON.parse(environmentText('prod'))
  Object.assign(value.sizes.api, api)
  const loaded = loadEnvironment('prod', JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  const deployment = Deployment.parse(objectIn(aTree(loaded.environment), 'Deployment', 'agentweaver-api'))
  const env = deployment.spec.template.spec.containers.flatMap((container) => container.env)
  return Object.fromEntries(env.map(({ name, value: text }) => [name, text ?? '']))
}

const NAMES = [
  'AGENTWEAVER_RATE_LIMIT_PER_MINUTE',
  'AGENTWEAVER_MAX_STREAMS',
  'AGENTWEAVER_MAX_STREAMS_PER_KEY',
  'AGENTWEAVER_LOG_LEVEL',
] as const

const pick = (env: ApiEnv) => Object.fromEntries(NAMES.map((name) => [name, env[name]]))

it('sets the limits of a replica and its log level as the service reads them', () => {
  const variables = variablesWith({
    ...{ requestsPerMinute: 300, maxStreams: 50, maxStreamsPerOwner: 5, logLevel: 'debug' },
  })

  const read = pick(ApiEnv.parse(variables))
  expect(read).toEqual({
    AGENTWEAVER_RATE_LIMIT_PER_MINUTE: 300,
    AGENTWEAVER_MAX_STREAMS: 50,
    AGENTWEAVER_MAX_STREAMS_PER_KEY: 5,
    AGENTWEAVER_LOG_LEVEL: 'debug',
  })
})

it('leaves the defaults to the service', () => {
  expect(Object.keys(variablesWith({})).filter((name) => NAMES.some((one) => one === name))).toEqual([])
})

it('rejects a limit of one owner above the limit of all', () => {
  const set = (api: object) => mistakesWith('prod', (value) => Object.assign(value['sizes'].api, api))

  expect(set({ maxStreams: 10, maxStreamsPerOwner: 20 })).toEqual([
    'sizes.api.maxStreamsPerOwner: is above sizes.api.maxStreams',
  ])
  expect(set({ maxStreams: 20, maxStreamsPerOwner: 20 })).toEqual([])
})
