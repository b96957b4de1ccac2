import { expect, it, onTestFinished } from 'vitest'
import type { StartRun } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { startModelServer } from '../fakes/model-server.ts'
import { createNpmPackage, serveNpm } from '../fakes/npm-package.ts'
import { CONTROL, planOfProject, workOnProject } from '../fakes/npm-project-work.ts'
import { gitService, HOST, RUNS_PUSH, TOKEN } from './git-rig.ts'
import { alice, aRun, dataOf, follow } from './service-rig.ts'

const NPM = 'npm.agentweaver-test.com'
const AGENTS: readonly [string, StartRun['agent']][] = [
  ['a scripted agent', { kind: 'scripted', plan: { turns: [planOfProject(TOKEN)] } }],
  ['an agent with a model', { kind: 'openaiCompatible', model: 'fake-model' }],
]

/** A service with the repository of an npm project, the registry of its dependency, and a model. */
async function place() {
  const model = await startModelServer({ respond: workOnProject(TOKEN) })
  onTestFinished(() => model.close())
  const found = await gitService({
    ceiling: RUNS_PUSH,
    registry: NPM,
    env: { OPENAI_BASE_URL: model.url, AGENTWEAVER_MODEL_CREDENTIAL: 'git' },
  })
  const { server, service } = found
  const npm = createNpmPackage(`https://${NPM}:${server.port}`)
  server.intercept = (request, response) => {
    if (!request.headers.host?.startsWith(NPM)) return false
    serveNpm(npm, request, response)
    return true
  }
  server.commit('team/app', { ...npm.project, '.gitignore': 'node_modules\n' })
  const run = async (agent: StartRun['agent'], policy: StartRun['policy'] = {}) => {
    const workspace = { kind: 'git', url: `${server.url}/team/app.git` } as const
    const { id } = await service.startRun(alice, { ...aRun('/', []), workspace, agent, policy })
    return { id, events: await follow(service, id) }
  }
  return { ...found, model, run }
}

/** The absolute paths in the output of the last command. */
const foundBySearch = (events: readonly RunEnvelope[]) => {
  const outcomes = dataOf(events, 'tool.result').flatMap(({ tool, outcome }) =>
    tool === 'run_command' && outcome.ok ? [outcome.content] : [],
  )
  return outcomes.at(-1)?.match(/^\/.*$/gm)
}
/** What people read about the end of a run: its failure, or the report of the agent. */
const failureOf = (events: readonly RunEnvelope[]) =>
  JSON.stringify([...dataOf(events, 'run.failed'), ...dataOf(events, 'run.outcome')])
const results = (events: readonly RunEnvelope[]) => JSON.stringify(dataOf(events, 'tool.result'))

it.each(AGENTS)(
  '%s starts from a git URL, installs, tests and pushes a branch, and no token is in its sandbox',
  async (_who, agent) => {
    const { run, server, model } = await place()

    const { id, events } = await run(agent)

    expect(dataOf(events, 'done'), results(events)).toEqual([{ state: 'succeeded' }])
    expect(results(events)).toContain('the tests pass')
    expect(server.refs('team/app')).toEqual([`refs/heads/agentweaver/${id}/work`, 'refs/heads/main'])
    expect(JSON.stringify(events)).not.toContain(TOKEN)
    expect(model.requests.every(({ headers }) => headers['authorization'] === `Bearer ${TOKEN}`)).toBe(true)
    expect(foundBySearch(events)).toEqual([CONTROL])
  },
)

it.each(AGENTS)(
  '%s fails with the name of the missing host if its run leaves out the registry',
  async (_who, agent) => {
    const { run, server } = await place()

    const { events } = await run(agent, { egress_hosts: [HOST] })

    expect(results(events)).toMatch(/Connection to npm\.agentweaver-test\.com:\d+ refused: /)
    expect(dataOf(events, 'egress.denied')).toMatchObject([{ host: NPM }])
    expect(server.refs('team/app')).toEqual(['refs/heads/main'])
    expect(dataOf(events, 'done')).toMatchObject([{ state: 'failed' }])
    expect(failureOf(events)).toMatch(/Connection to npm\.agentweaver-test\.com:\d+ refused: /)
  },
)
