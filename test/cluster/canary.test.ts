import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { API_KEY_FILE } from '../../contracts/api-env.ts'
import type { RunEvent } from '../../contracts/events.ts'
import { CONTAINERS } from '../../contracts/names.ts'
import { POD_USERS } from '../../contracts/pod.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { type PostgresServer, startPostgres } from '../../devcluster/service/postgres-server.ts'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { turnToken } from '../../runtime/api/keys/deployment-keys.ts'
import { userSecretName } from '../../runtime/api/keys/user-secret-name.ts'
import { deriveKey } from '../../runtime/kit/derive-key.ts'
import { keyPair } from '../agent-host/host-rig.ts'
import { startCopilotService } from '../fakes/copilot-service.ts'
import { createDatabase } from '../helpers/postgres.ts'
import {
  dumpPostgres,
  dumpSqlite,
  filesWith,
  memoryOf,
  processesOf,
  rootOf,
  tracesOf,
  valuesIn,
} from './helpers/canary-search.ts'
import { describeWith } from './helpers/features.ts'
import { startPodAzure } from './helpers/pod-azure.ts'
import { kubectl } from './helpers/pods.ts'
import { useServiceSpace } from './helpers/service-space.ts'

const run = promisify(execFile)
const GITHUB = 'api.github.com'
const COPILOT = 'api.business.githubcopilot.com'
const OWNER = 'local'
const IDLE_MS = 90_000
/** The run waits while the test searches all its remains byte by byte. */
const SEARCH_MS = 600_000
const MAX_OUTPUT = 256 * 1024 * 1024

/**
 * The control value, which every search must find. It consists of letters only, so that no redactor treats it as a
 * secret.
 */
const CONTROL = `controlheron${[...randomBytes(12)].map((byte) => String.fromCharCode(97 + (byte % 26))).join('')}`
const CANARY = `gho_${randomBytes(18).toString('hex')}`

/** Commands of a hostile agent: search for credentials and copy them to many places. */
const HUNT = [
  'env > /workspace/env.txt',
  'cat /proc/*/environ /proc/*/cmdline > /tmp/environs.txt 2>/dev/null',
  'ls -laR /var/run/secrets /run/secrets /etc/agentweaver > "$HOME/secrets.txt" 2>&1',
  `echo ${CONTROL} > /workspace/${CONTROL}`,
  `echo ${CONTROL} > /tmp/hidden`,
  'echo looked',
].join('; ')

const FORMS = [
  ['runc', 'real node', undefined, 'sqlite'],
  ['gvisor', 'gvisor', 'gvisor', 'postgres'],
] as const

for (const [name, feature, runtimeClass, engine] of FORMS) {
  const title = `the credential of a run with the real Copilot SDK, under ${name}, with ${engine}`
  describeWith(['agent-sandbox', 'audit log', feature], title, () => {
    let model: Awaited<ReturnType<typeof startCopilotService>>
    let azure: Awaited<ReturnType<typeof startPodAzure>>
    let postgres: PostgresServer | undefined
    let database = ''
    let keysFolder = ''
    /** Path of the root key: the service creates it, unless several services share a database and receive it. */
    const rootKey = (stateDir: string) =>
      keysFolder === ''
        ? readFileSync(join(stateDir, 'keys', 'deployment.key'))
        : Buffer.from(readFileSync(join(keysFolder, 'deployment-key'), 'utf8'), 'base64')
    const space = useServiceSpace({
      runtimeClass,
      replicas: { agent: 1, command: 0 },
      settings: async () => {
        const settings = {
          AGENTWEAVER_USER_VAULT: 'true',
          AGENTWEAVER_LOG_LEVEL: 'debug',
          // The search can take longer than a run may wait with its pod.
          AGENTWEAVER_RELEASE_POD_ON_SUSPEND: 'false',
        }
        if (engine === 'sqlite') return settings
        postgres = await startPostgres()
        database = await createDatabase(postgres.url)
        keysFolder = mkdtempSync(join(tmpdir(), 'aw-keys-'))
        writeFileSync(join(keysFolder, 'deployment-key'), randomBytes(32).toString('base64'))
        const ticketKey = keyPair().export({ type: 'pkcs8', format: 'der' })
        writeFileSync(join(keysFolder, 'ticket-key'), ticketKey.toString('base64'))
        writeFileSync(join(keysFolder, API_KEY_FILE), generateApiKey())
        return { ...settings, DATABASE_URL: database, AGENTWEAVER_KEYS_DIR: keysFolder }
      },
      agentPod: async ({ kube, namespace, account, stateDir }) => {
        const nameKey = deriveKey(rootKey(stateDir), 'name')
        model = await startCopilotService({
          publicOrigin: `https://${COPILOT}`,
          respond: (_request, index) =>
            index === 0
              ? { text: 'I look.', toolCalls: [{ name: 'run_command', arguments: { command: HUNT } }] }
              : { text: `The key is ${CANARY}, and once more in pieces: ${CANARY.split('').join(' ')}` },
        })
        const port = Number(new URL(model.origin).port)
        azure = await startPodAzure({
          client: kube,
          namespace,
          account,
          secrets: { [userSecretName(nameKey, OWNER)]: CANARY },
          fronts: { [GITHUB]: port, [COPILOT]: port },
        })
        return (spec) => azure.withIdentity(spec, undefined, { AGENT_HOST_LOG_LEVEL: 'debug' })
      },
    })
    afterAll(async () => {
      for (const holder of holders) holder.kill()
      await azure?.stop()
      await model?.close()
      await postgres?.stop()
      if (keysFolder !== '') rmSync(keysFolder, { recursive: true })
    })

    const holders: ChildProcess[] = []
    const seen: RunEvent[] = []
    /** The values found in each place while the run was alive. Each place has its own control value. */
    const sightings: Record<string, string[]> = {}
    let secrets: Record<string, string> = {}
    let podUid = ''
    let podName = ''

    beforeAll(async () => {
      await space.waitForPool('agent')
      const { id } = await space.client().startRun({
        task: `look around, ${CONTROL}`,
        workspace: { kind: 'empty' },
        agent: { kind: 'copilot', model: 'gpt-fake' },
        interactive: true,
      })
      const following = follow(id)
      following.catch(() => undefined)
      await waitUntil({ what: 'the run to wait', timeoutMs: IDLE_MS, everyMs: 100 }, async () => {
        const { state, failure } = await space.client().readRun(id)
        if (failure) throw new Error(`${failure.code}: ${failure.message}\n${space.log()}`)
        return state === 'waiting' ? true : undefined
      })
      secrets = secretsOf(id)
      await plantControls()
      await lookWhileItLives(secrets)
      await space.client().cancel(id)
      await following
      await lookAfterwards(secrets)
    }, SEARCH_MS)

    async function follow(id: string): Promise<void> {
      for await (const { event } of space
        .client()
        .streamEvents(id, { signal: AbortSignal.timeout(SEARCH_MS) })) {
        seen.push(event)
        if (event.type === 'sandbox.execution_pod.bound') ({ podUid, podName } = event.data)
      }
    }

    function secretsOf(runId: string) {
      const root = rootKey(space.stateDir())
      return {
        credential: CANARY,
        'name of the secret': userSecretName(deriveKey(root, 'name'), OWNER),
        bearer: turnToken(deriveKey(root, 'turn'), { runId, generation: 1, instanceId: podUid }),
        'deployment key': root.toString('hex'),
        'deployment key in base64': root.toString('base64').replace(/=+$/, ''),
      }
    }

    const ask = async (...args: string[]) => {
      const config = ['--kubeconfig', inject('cluster').kubeconfig]
      return (await run(kubectl(), [...config, ...args], { maxBuffer: MAX_OUTPUT })).stdout
    }
    const inPod = ['-n', space.namespace]
    const containers = [CONTAINERS.agentHost, CONTAINERS.toolbox]

    /**
     * Starts a process with the control value in its environment, in a file, and in a deleted file that it keeps open.
     */
    async function holdIn(container: string): Promise<void> {
      const script = `const fs = require('fs'); fs.writeFileSync(require('os').homedir() + '/kept', process.env.C); const fd = fs.openSync('/tmp/gone', 'w'); fs.writeSync(fd, process.env.C); fs.unlinkSync('/tmp/gone'); console.log('held'); setInterval(() => {}, 1000)`
      const config = ['--kubeconfig', inject('cluster').kubeconfig, ...inPod]
      // The AgentHost image has no shell, so the Node process replaces itself with `execve` and a new environment.
      const again = `process.execve(process.execPath, ['node', '-e', ${JSON.stringify(script)}], { C: '${CONTROL}', HOME: process.env.HOME })`
      const argv = ['/usr/local/bin/node', '-e', again]
      const child = spawn(kubectl(), [...config, 'exec', podName, '-c', container, '--', ...argv], {
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      holders.push(child)
      const ended = once(child, 'exit').then(() =>
        Promise.reject(new Error(`nothing is held in ${container}`)),
      )
      ended.catch(() => undefined)
      await Promise.race([once(child.stdout, 'data'), ended])
    }

    /** Writes the control values to places where a program could leak the credential. */
    async function plantControls(): Promise<void> {
      await ask(...inPod, 'annotate', 'pod', podName, `control=${CONTROL}`)
      await ask(...inPod, 'create', 'configmap', CONTROL)
      for (const container of containers) {
        await holdIn(container)
        const folder = join(
          inject('cluster').folder,
          'node0',
          'pod-logs',
          `${space.namespace}_${podName}_${podUid}`,
        )
        appendFileSync(join(folder, container, '0.log'), `${new Date().toISOString()} stderr F ${CONTROL}\n`)
      }
    }

    type Values = Record<string, string>
    const note = (where: string, bytes: Buffer | string, values: Values) => {
      sightings[where] = [...(sightings[where] ?? []), ...valuesIn(bytes, { control: CONTROL, ...values })]
    }
    const noteFiles = async (where: string, folders: readonly string[], values: Record<string, string>) => {
      sightings[where] = []
      for (const [what, value] of Object.entries({ ...values, control: CONTROL })) {
        if ((await filesWith(folders, value)).length > 0) sightings[where].push(what)
      }
    }

    async function lookWhileItLives(values: Record<string, string>): Promise<void> {
      for (const container of containers)
        note(`the log of ${container}`, await ask(...inPod, 'logs', podName, '-c', container), values)
      const look = 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; true'
      const inToolbox = ['exec', podName, '-c', CONTAINERS.toolbox, '--', 'sh', '-c', look]
      note('what the toolbox reads in /proc', await ask(...inPod, ...inToolbox), values)
      const kinds = (await ask('api-resources', '--verbs=list', '-o', 'name')).trim().split('\n')
      note('the objects of the cluster', await ask('get', kinds.join(','), '-A', '-o', 'json'), values)
      const node = join(inject('cluster').folder, 'node0')
      const folders = [join(node, 'kubelet', 'pods', podUid), join(node, 'pod-logs')]
      await noteFiles('the volumes and logs of the node', folders, values)
      // The node cannot see processes inside gVisor, because the gVisor kernel manages them.
      if (runtimeClass === undefined)
        for (const container of containers) await lookAtProcesses(container, values)
    }

    async function lookAtProcesses(container: string, values: Record<string, string>): Promise<void> {
      const wanted = container === CONTAINERS.agentHost ? POD_USERS.agentHost : POD_USERS.toolbox
      const own = processesOf(podUid).filter(({ uid }) => uid === wanted)
      for (const one of own) {
        for (const bytes of tracesOf(one).values()) note(`/proc of ${container}`, bytes, values)
        note(`the memory of ${container}`, await memoryOf(one), values)
      }
      await noteFiles(`the files of ${container}`, own.slice(0, 1).flatMap(rootOf), values)
    }

    async function lookAfterwards(values: Record<string, string>): Promise<void> {
      note('the events', JSON.stringify(seen), values)
      // The log surely contains this path; it contains only route patterns, ids and statuses.
      note('the log of the API', space.log(), { ...values, control: '/api/runs' })
      const file = join(space.stateDir(), 'store.db')
      note('the rows of the store', database === '' ? dumpSqlite(file) : await dumpPostgres(database), values)
      if (database === '') await noteFiles('the files of the store', [file, `${file}-wal`], values)
      note('the audit log of the API server', readFileSync(inject('cluster').auditLog), values)
      await noteFiles(
        'etcd and all logs',
        [join(inject('cluster').folder, 'etcd'), join(inject('cluster').folder, 'logs')],
        values,
      )
    }

    it('is used by the real SDK for the model in a turn that ran a command', () => {
      expect(model.requests[0]?.headers['authorization']).toBe(`Bearer ${CANARY}`)
      expect(
        seen.flatMap((event) => (event.type === 'command.output' ? event.data.chunk : [])).join(''),
      ).toContain('looked')
      expect(seen.some(({ type }) => type === 'agent.message')).toBe(true)
    })

    it('appears in nothing that remains, and during the run only in the memory of AgentHost', () => {
      const found = Object.entries(sightings).map(([where, what]) => [
        where,
        [...new Set(what)].filter((one) => one !== 'control'),
      ])
      expect(
        Object.fromEntries(
          found.filter(([where, what]) => where !== 'the memory of agent-host' && what?.length),
        ),
      ).toEqual({})
    })

    it('would be found: each search finds its planted control', () => {
      const blind = Object.entries(sightings)
        .filter(([, what]) => !what.includes('control'))
        .map(([where]) => where)
      expect({ blind, searched: Object.keys(sightings) }).toEqual({
        blind: [],
        searched: Object.keys(sightings),
      })
      if (runtimeClass === undefined) expect(sightings['the memory of agent-host']).toContain('credential')
    })
  })
}
