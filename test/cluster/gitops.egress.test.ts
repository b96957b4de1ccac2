import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { RequestedAgent } from '../../contracts/agents.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { whyNoNodes } from '../../devcluster/host/privileges.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { isReady } from '../../devcluster/service/readiness.ts'
import { followTeam } from '../cli/team.ts'
import { CONTROL, planOfProject } from '../fakes/npm-project-work.ts'
import { CLI } from '../helpers/built-programs.ts'
import { memoryOf, processesOf, valuesInMemory } from './helpers/canary-search.ts'
import { containerProcesses } from './helpers/container-processes.ts'
import { killAllOf } from './helpers/dead-pod.ts'
import { type DeployedApi, deployApi } from './helpers/deployed-api.ts'
import { ask, connectTo, direct, holdTunnels, serveLoopback } from './helpers/egress-commands.ts'
import { PROXY_ADDRESS, withProxy } from './helpers/egress-environment.ts'
import { egressWithGit } from './helpers/egress-list.ts'
import { egressRuns, PODS, READY_MS } from './helpers/egress-runs.ts'
import { forbiddenCells } from './helpers/forbidden-cells.ts'
import {
  APP_HOST,
  GIT_PLACE,
  GIT_REPOSITORY,
  type GitOutside,
  NPM_HOST,
  prepareGit,
} from './helpers/git-outside.ts'
import { COMPANY_PLACE, UNKNOWN } from './helpers/git-outside-main.ts'
import { proxyLogs } from './helpers/proxy-logs.ts'
import { openWayToIssuer } from './helpers/team-outside.ts'
import { leaksOf, startWatch } from './packets/watch.ts'

const noNodes = whyNoNodes()
const NAMESPACE = 'agentweaver-egress'
/** On a busy machine the images alone take five minutes. */
const DEPLOY_MS = 1_200_000
const TEST_MS = 420_000
const PROXY = PROXY_ADDRESS

/** The canary: nothing that a sandbox can read may contain it. */
const TOKEN = 'ghp_canaryOfTheClusterSuiteCanaryOfTh001'
/** The token that the GitHub App gets. */
const APP_TOKEN = 'ghs_canaryOfTheGitHubAppCanaryOfTheGitHubApp'
const git = prepareGit(TOKEN, APP_TOKEN)
const URL_OF_GIT = `https://${GIT_PLACE.host}/${GIT_REPOSITORY}.git`

const WITH_MODEL: RequestedAgent = { kind: 'openaiCompatible', model: 'fake-model' }
const AGENTS: readonly [string, RequestedAgent][] = [
  ['a scripted agent', { kind: 'scripted', plan: { turns: [planOfProject(TOKEN)] } }],
  ['an agent with a model', WITH_MODEL],
]

const print = (text: string) => process.stderr.write(`${text}\n`)
describe.skipIf(noNodes !== undefined)(
  `the egress proxy in a cluster${noNodes ? ` (skipped: ${noNodes})` : ''}`,
  { timeout: TEST_MS },
  () => {
    let api: DeployedApi
    let sandbox: string
    let server: GitOutside | undefined

    const pods = async () =>
      (await api.rig.client.list({ apiVersion: 'v1', plural: 'pods', namespace: NAMESPACE })).items
    const proxies = async () =>
      (await pods()).filter((pod) => pod.metadata['deletionTimestamp'] === undefined)
    const untilReady = (count: number) =>
      waitUntil(
        { what: `${count} ready replicas of the proxy`, timeoutMs: READY_MS, everyMs: 500 },
        async () => {
          const found = await proxies()
          return found.length === count && found.every(isReady) ? found : undefined
        },
      )
    const scale = (replicas: number) =>
      api.rig.kubectl('scale', 'deployment', '--all', '--namespace', NAMESPACE, `--replicas=${replicas}`)
    const { ended, podOf, startRun, runOf, startSandbox, ...runs } = egressRuns(() => api, URL_OF_GIT)
    const outputOf = (command: string, id = sandbox, onOutput?: (output: string) => unknown) =>
      runs.outputOf(command, id, onOutput)
    const denied = (host: string) => runs.denied(host, sandbox)

    beforeAll(async () => {
      api = await deployApi({
        ...{ change: withProxy(git.root), egress: egressWithGit() },
        credentials: { git: TOKEN, app: git.appKey },
      })
      server = await git.start(api.rig.cluster.folder)
      print('waiting for two replicas of the egress proxy')
      await untilReady(2)
      await api.waitForPools()
      sandbox = (await startSandbox()).id
    }, DEPLOY_MS)
    afterAll(async () => {
      await server?.stop()
      await api?.stop()
      git.remove()
    })
    afterEach(async ({ task }) => {
      if (task.result?.state === 'fail') print(await proxyLogs(api, NAMESPACE))
    })

    it('refuses a host that is not listed, in words, and the run reports it', async () => {
      expect(await outputOf(connectTo('example.com:443'))).toMatch(/^403 .*example\.com/m)
      expect(await denied('example.com')).toMatchObject({ port: 443, rule: 'not-listed' })
    })

    it('reaches a listed host through the proxy of the company, which alone knows its name', async () => {
      // The entry limits requests, so the proxy reads them, with a certificate that the sandbox trusts.
      expect(await outputOf(ask('https://registry.npmjs.org/is-number'))).toMatch(/^200 /)
      expect(await outputOf('getent hosts registry.npmjs.org || echo unknown')).toContain('unknown')
      expect(await outputOf(ask('https://pypi.org/simple/six/'))).toMatch(/^502 .*upstream proxy .*403/)
      const { items } = await api.service.readEvents(sandbox, { limit: 1000 })
      expect((items as RunEnvelope[]).map(({ event }) => event)).toContainEqual({
        type: 'sandbox.warning',
        data: expect.objectContaining({ category: 'egress-upstream-proxy' }),
      })
    })

    it('is the only address that a sandbox reaches', async () => {
      const [pod] = await untilReady(2)
      const ip = String(pod?.['status'].podIP)

      expect(await outputOf(direct(PROXY, 3128))).toBe('open')
      expect(await outputOf(direct(ip, 8081))).toBe('closed')
      expect(await outputOf(direct(COMPANY_PLACE.address, COMPANY_PLACE.port))).toBe('closed')
      expect(await outputOf(direct('10.96.0.1', 443))).toBe('closed')
      expect(await outputOf(direct('169.254.169.254', 80))).toBe('closed')
    })

    it('lets a command clone and push with a token that is nowhere in its pod', async () => {
      const push = 'git push -q origin "HEAD:refs/heads/${AGENTWEAVER_BRANCH_PREFIX}fix"'
      const commit = 'git -c user.name=a -c user.email=none commit -q --allow-empty -m work'
      const output = await outputOf(
        `cd /tmp && git clone -q ${URL_OF_GIT} app && cat app/README && cd app && ${commit} && ${push} && ${commit} && ${push}; echo "exit $?"; git push origin HEAD:main 2>&1; printf %s "$GIT_TOKEN" | wc -c`,
      )

      expect(output).toMatch(/^from team\/app\nexit 0\n/)
      expect(output).toContain('The push is refused: this run may push only to')
      expect(output).toMatch(new RegExp(`\\n${TOKEN.length}$`))
      expect(git.refs()).toEqual([`refs/heads/agentweaver/${sandbox}/fix`, 'refs/heads/main'])
      const { items } = await api.service.readEvents(sandbox, { limit: 1000 })
      expect((items as RunEnvelope[]).map(({ event }) => event.type)).toContain('egress.credential_used')
      expect(JSON.stringify(items)).not.toContain(TOKEN)
      // The search finds a file with the value, and nothing else. The value is in two parts in the arguments.
      const search = `printf '%s%s' ${TOKEN.slice(0, 20)} ${TOKEN.slice(20)} > /tmp/control; grep -rlF -f /tmp/control /tmp /workspace /home /etc /run /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null`
      expect(await outputOf(search)).toBe('/tmp/control')
    })

    it('pushes with a token that the service creates with the key of a GitHub App', async () => {
      const url = URL_OF_GIT.replace(GIT_PLACE.host, APP_HOST)
      const output = await outputOf(
        `cd /tmp && git clone -q ${url} with-app && cd with-app && git -c user.name=a -c user.email=none commit -q --allow-empty -m work && git push -q origin "HEAD:refs/heads/\${AGENTWEAVER_BRANCH_PREFIX}app"; echo "exit $?"; printf %s "$APP_TOKEN" | wc -c; grep -rlF ${APP_TOKEN.slice(0, 30)} /tmp /workspace /home /etc /run 2>/dev/null`,
      )
      const { items } = await api.service.readEvents(sandbox, { limit: 1000 })

      // A placeholder of the same length is in the environment, and no file has the token.
      expect(output).toBe('exit 0\n40')
      expect(git.refs()).toContain(`refs/heads/agentweaver/${sandbox}/app`)
      expect(`${output}${JSON.stringify(items)}`).not.toContain(APP_TOKEN)
    })

    it('begins a sandbox with a clone of the repository, and diffs against its commit', async () => {
      const { id } = await startSandbox({ kind: 'git', url: URL_OF_GIT })
      const output = await outputOf('cat README && git status -sb && echo more >> README', id)
      const { workspace } = await api.service.readSandbox(id)
      await api.service.destroySandbox(id)
      await ended(() => api.service.readSandbox(id))
      const diff = await api.service.readDiff(id)

      expect(output).toBe('from team/app\n## main...origin/main')
      expect(workspace).toMatchObject({ kind: 'git', commit: expect.stringMatching(/^[0-9a-f]{40}$/) })
      expect(diff).toMatchObject({ files: [{ path: 'README', additions: 1 }], problems: [] })
    })

    it.each(AGENTS)('lets %s install, test and push, and no token is in its sandbox', async (_who, agent) => {
      const { id, state, items } = await runOf(agent)

      expect(state, JSON.stringify(items.slice(-20))).toBe('succeeded')
      expect(JSON.stringify(items)).toContain('the tests pass')
      const warnings = items.flatMap(({ event }) =>
        event.type === 'sandbox.warning' ? [event.data.category] : [],
      )
      expect(warnings.includes('cleartext-model-route')).toBe(agent.kind === 'openaiCompatible')
      expect(git.refs()).toContain(`refs/heads/agentweaver/${id}/work`)
      expect(JSON.stringify(items)).not.toContain(TOKEN)
      const outputs = items.flatMap(({ event }) =>
        event.type === 'command.output' ? [event.data.chunk] : [],
      )
      expect(outputs.join('').match(/^\/.*$/gm)).toEqual([CONTROL])
    })

    it.each(AGENTS)('names the registry to %s that may not reach it', async (_who, agent) => {
      const { id, state, items } = await runOf(agent, { egress_hosts: [GIT_PLACE.host] })

      expect(JSON.stringify(items)).toMatch(/Connection to npm\.agentweaver-test\.com:443 refused: /)
      expect(items.map(({ event }) => event)).toContainEqual({
        type: 'egress.denied',
        data: expect.objectContaining({ host: NPM_HOST }),
      })
      expect(git.refs()).not.toContain(`refs/heads/agentweaver/${id}/work`)
      if (agent.kind === 'openaiCompatible') expect(state).toBe('failed')
    })

    it('sends nothing from AgentHost to a command that serves DNS and HTTP on the loopback interface', async () => {
      const { id } = await startRun(WITH_MODEL)
      await waitUntil({ what: 'a run that works', timeoutMs: READY_MS, everyMs: 50 }, async () =>
        (await api.service.readRun(id)).state === 'running' ? true : undefined,
      )
      // The command ends with its sandbox.
      const output = await outputOf(serveLoopback(), id)
      const { state } = await ended(() => api.service.readRun(id))
      const { items } = await api.service.readEvents(id, { limit: 1000 })
      const events = (items as RunEnvelope[]).map(({ event }) => event)
      const served = events.findIndex(
        ({ type, data }) => type === 'command.output' && /tcp 8080/.test(data.chunk),
      )

      expect(state).toBe('succeeded')
      expect(output).toMatch(/^(received udp 53 .*control|refused udp 53 E)/m)
      expect(output).toMatch(/^(received tcp 443 control|refused tcp 443 E)/m)
      expect(output.split('\n').filter((line) => !/control|refused/.test(line))).toEqual([])
      // AgentHost called the model afterwards.
      expect(events.slice(served).filter(({ type }) => type === 'tool.result').length).toBeGreaterThan(1)
    })

    it('asks GitHub through a replica whether it accepts the token of a person', async () => {
      const set = (value: string) => api.service.setCredential('github', { value })

      await expect(set(`ghp_${UNKNOWN}ToGitHubInTheClusterSuite0001`)).rejects.toThrow(
        'GitHub does not accept this value: 401 Unauthorized. Nothing was stored.',
      )
      expect(await set(TOKEN)).not.toHaveProperty('unchecked')
      await api.service.removeCredential('github', {})
    })

    it('lets two people of a team work as docs/getting-started.md shows', async () => {
      const [endpoint, way] = [await api.endpoint(), await openWayToIssuer(server?.pid ?? 0, git.root)]
      onTestFinished(async () => {
        await endpoint.stop()
        await way.close()
      })

      const { outputs, readme, records } = await followTeam({
        ...{ url: endpoint.url, cli: CLI, repository: git.repository },
        tokens: { ada: TOKEN, bob: 'ghp_bobHasAnotherTokenInTheClusterSuite1' },
        ...{ hosts: way.hosts, env: way.env, fetch: way.fetch },
      })

      expect(outputs.get('! npx agentweaver approve RUN REQUEST')).toMatch(/another person/i)
      expect(outputs.get('! npx agentweaver show RUN')).toMatch(/There is no run/i)
      expect(readme).toContain('fixed')
      expect(outputs.get('npx agentweaver audit verify')).toMatch(/intact/)
      expect(records).toContain('#t1/ann')
      expect([records, ...outputs.values()].join()).not.toContain(TOKEN)
    })

    it('closes the connections of a run that a person restricts, and refuses new ones until it is lifted', async () => {
      const restrict = (level: 'no-network' | 'normal') =>
        api.service.setRestriction({ scope: { kind: 'run', id: sandbox }, level, reason: 'a test' })
      let restrictedAt: number | undefined
      const output = await outputOf(holdTunnels(GIT_PLACE.host), sandbox, async (text) => {
        if (restrictedAt !== undefined || !text.includes('open\n')) return
        restrictedAt = performance.now()
        await restrict('no-network')
      })
      print(`restrict: refused ${Math.round(performance.now() - (restrictedAt ?? 0))} ms after the request`)
      await restrict('normal')

      expect(output).toMatch(/^(open\n)+closed\n[\s\S]*refused 403 .*a person has turned off the network/)
      // The replicas learn it within a second, and the answer to the request does not wait for them.
      await waitUntil({ what: 'the network again', timeoutMs: 30_000, everyMs: 200 }, async () =>
        (await outputOf(connectTo(`${GIT_PLACE.host}:443`))).startsWith('200') ? true : undefined,
      )
    })

    it('has the token in the memory of no process of a sandbox that clones with it', async () => {
      const { id } = await startSandbox()
      const { metadata } = await podOf(id)
      const marks: Record<string, string> = { placeholder: '', token: TOKEN }
      const found: string[] = []
      const clone = `git clone -q ${URL_OF_GIT} app && echo "placeholder $GIT_TOKEN" && sleep 60`
      await outputOf(clone, id, async (output) => {
        marks['placeholder'] = /placeholder (\S+)/.exec(output)?.[1] ?? ''
        if (marks['placeholder'] === '' || found.length > 0) return
        for (const one of processesOf(String(metadata.uid))) found.push(...(await valuesInMemory(one, marks)))
        await api.service.destroySandbox(id)
      })

      expect(new Set(found)).toEqual(new Set(['placeholder']))
    })

    it('keeps the token in the memory of the container that inserts it, and of no other process of the proxy', async () => {
      const processes = (await untilReady(2)).flatMap(containerProcesses)
      const holds = await Promise.all(processes.map(async (one) => (await memoryOf(one)).includes(TOKEN)))
      const names = new Set(processes.map(({ name }) => name))
      const holders = new Set(processes.filter((_, index) => holds[index]).map(({ name }) => name))

      expect([...names].toSorted()).toEqual(['egress-credentials', 'egress-proxy'])
      expect([...holders]).toEqual(['egress-credentials'])
    })

    it('keeps to the policies when every process of the sandbox has been killed', async () => {
      const { id } = await startSandbox()
      const [pod, [proxy], [replica]] = await Promise.all([podOf(id), untilReady(2), api.replicas()])
      const cells = await forbiddenCells(api, {
        proxy: String(proxy?.['status'].podIP),
        replica: replica?.ip ?? '',
      })
      const ping = `busybox ping -c 1 -W 2 ${GIT_PLACE.address} > /dev/null && echo arrived || echo lost`

      const dead = await killAllOf(api.rig.cluster, pod)
      onTestFinished(() => dead.prober.stop())
      const reachedByNode = await dead.probeFromNode(cells)
      expect([await dead.runOnNode(ping), await dead.run(ping)]).toEqual(['arrived\n', 'lost\n'])
      const watch = startWatch(dead.prober, cells)
      try {
        // The network of the pod still works: the proxy answers, and refuses, because the relay alone has the token.
        expect(
          await dead.run(
            `HTTPS_PROXY=http://${PROXY}:3128; export HTTPS_PROXY; ${connectTo(`${GIT_PLACE.host}:443`)}`,
          ),
        ).toMatch(/^407 /)
        await waitUntil({ what: 'ten rounds', timeoutMs: READY_MS, everyMs: 100 }, () =>
          watch.latest() && watch.rounds.length >= 10 ? true : undefined,
        )
      } finally {
        dead.release()
      }
      await waitUntil({ what: 'the removal of the pod', timeoutMs: READY_MS, everyMs: 500 }, async () => {
        const { items: left } = await api.rig.client.list(PODS)
        return left.some(({ metadata }) => metadata.uid === pod.metadata.uid) ? undefined : true
      })
      await watch.stop()
      await api.service.destroySandbox(id)
      print(`killed: nothing arrived in ${watch.rounds.length} rounds`)

      // The resolver waits for a whole question. The node itself has no Services. A closed UDP port is an answer.
      const udp = cells.findIndex(({ protocol }) => protocol === 'UDP')
      expect(reachedByNode.slice(0, 4)).toEqual(Array(4).fill('open'))
      expect(reachedByNode.slice(udp, udp + 4)).toEqual(Array(4).fill('refused'))
      expect(leaksOf(watch)).toEqual([])
    })

    it('gives no way out to a caller without a token', async () => {
      const asked = `printf 'CONNECT registry.npmjs.org:443 HTTP/1.1\\r\\nHost: registry.npmjs.org:443\\r\\n\\r\\n' | nc -w 5 ${PROXY} 3128 | head -1`

      expect(await outputOf(asked)).toContain(' 407 ')
    })

    it('leaves nothing open while no replica runs, says why, and works again with the next one', async () => {
      await scale(0)
      // A replica that is about to end still serves.
      await waitUntil({ what: 'no replica', timeoutMs: READY_MS, everyMs: 500 }, async () =>
        (await pods()).length === 0 ? true : undefined,
      )

      const without = await outputOf(connectTo('registry.npmjs.org:443'))
      const beside = await outputOf(direct('203.0.113.10', 443))
      const report = await denied('all hosts')
      await scale(2)
      await untilReady(2)

      expect(without).toMatch(/^50[234] .*proxy/m)
      expect(beside).toBe('closed')
      expect(report.rule).toBe('proxy-unavailable')
      expect(await outputOf(connectTo('example.com:443'))).toMatch(/^403 /m)
    })
  },
)
