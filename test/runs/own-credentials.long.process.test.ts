import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { startModelServer } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { aServiceOfTwo, filesWith, OTHER_REGISTRY, REGISTRY, TOKENS } from './own-credentials-rig.ts'
import { alice, aRun, bob, dataOf } from './service-rig.ts'

const CLONE = 'git clone -q https://github.com/team/app.git app 2>&1 && cat app/README; echo "exit $?"'
const GET = (host: string) => `curl -s https://${host}/package`
const COMMIT = 'git -c user.name=a -c user.email=none commit -q --allow-empty -m work'
/** The canary in two parts, so that no process has all of it in its arguments. The file shows that the search finds it. */
const SEARCH = `printf '%s%s' ${TOKENS.alice.slice(0, 20)} ${TOKENS.alice.slice(20)} > /tmp/control; grep -rlaF -f /tmp/control . /tmp /home /root /etc /run /agentweaver /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null`

it('clones and pushes with the token of the owner, who alone can use it', async () => {
  const { run, git, userCredentials, store, config } = await aServiceOfTwo()
  const set = await userCredentials.set(alice, 'github', { value: TOKENS.alice })

  const own = await run(
    alice,
    `${CLONE}; cd app && ${COMMIT} && git push -q origin "HEAD:refs/heads/\${AGENTWEAVER_BRANCH_PREFIX}fix"; echo "push $?"; printf %s "$GITHUB_TOKEN" | wc -c; ${SEARCH}`,
  )
  const others = await run(bob, CLONE)

  const [result = ''] = own.results
  expect(result).toContain('from team/app\\nexit 0\\npush 0\\n40\\n/tmp/control\\n')
  expect(git.refs('team/app')).toContain(`refs/heads/agentweaver/${own.id}/fix`)
  expect(others.results[0]).toContain('exit 128')
  expect(git.requests.at(-1)).toMatchObject({ isAuthorized: false })
  expect(dataOf(own.events, 'egress.credential_used')[0]).toMatchObject({ credentialId: set.credentialId })
  expect(dataOf(others.events, 'egress.credential_used')).toEqual([])
  const { items } = await userCredentials.list(alice)
  expect(items).toEqual([{ ...set, lastUsedAt: expect.any(String) }])
  expect(await userCredentials.list(bob)).toEqual({ items: [] })
  // The redactor hid nothing, and the store and its folder have the value only sealed.
  expect(JSON.stringify(own.events)).not.toContain('REDACTED')
  expect(JSON.stringify(await store.readAudit({ limit: 100 }))).not.toContain(TOKENS.alice)
  expect(filesWith(config.stateDir, TOKENS.alice)).toEqual([])
  expect(filesWith(config.stateDir, set.fingerprint)).not.toEqual([])
})

it('counts the start of a run as a use of the token for Copilot, and not the list of models', async () => {
  const { service, userCredentials } = await aServiceOfTwo()
  const set = await userCredentials.set(alice, 'github', { value: TOKENS.alice })
  const lastUse = async () => (await userCredentials.list(alice)).items[0]?.lastUsedAt

  const { items } = await service.listModels(alice)
  const listed = await lastUse()
  const agent = { kind: 'copilot', model: 'gpt-5' } as const
  const { id } = await service.startRun(alice, { ...aRun('/', []), workspace: { kind: 'empty' }, agent })
  await until('the use is recorded', async () => (await lastUse()) !== undefined)
  await service.cancel(alice, id)

  expect(items.find(({ kind }) => kind === 'copilot')?.usable).toBe(true)
  expect([set.lastUsedAt, listed]).toEqual([undefined, undefined])
})

it('prefers the token of the owner to the one of the operator', async () => {
  const { run, userCredentials } = await aServiceOfTwo({
    github: 'credential: team-git,',
    operatorsToken: true,
  })
  const clone = `${CLONE}; printf %s "$GIT_TOKEN" | wc -c`

  const before = await run(alice, clone)
  await userCredentials.set(alice, 'github', { value: TOKENS.alice })
  const after = await run(alice, clone)

  // The git server does not accept the token of the operator.
  expect(before.results[0]).toContain('exit 128\\n40')
  expect(dataOf(before.events, 'egress.credential_used')[0]).toMatchObject({ credentialId: 'team-git' })
  expect(after.results[0]).toContain('from team/app\\nexit 0\\n40')
})

it('adds a token to the requests to one registry, for the runs of its owner', async () => {
  const { run, registry, userCredentials } = await aServiceOfTwo()
  await userCredentials.set(alice, 'registry', { host: REGISTRY, value: TOKENS.alice })
  await userCredentials.set(bob, 'registry', { host: REGISTRY, value: TOKENS.bob, user: 'builder' })
  const both = `${GET(REGISTRY)}; echo; ${GET(OTHER_REGISTRY)}`

  const ofAlice = await run(alice, both)
  const ofBob = await run(bob, both, `curl -s -H 'Authorization: Bearer mine' https://${REGISTRY}/package`)

  expect(ofAlice.results[0]).toContain('Bearer alice\\nnobody')
  expect(ofBob.results[0]).toContain('Basic builder bob\\nnobody')
  // The credential of a settings file of the project is not sent.
  expect(ofBob.results[1]).toContain('Basic builder bob')
  expect(registry.asked.filter(({ host }) => host === OTHER_REGISTRY)).toEqual([
    { host: OTHER_REGISTRY, by: 'nobody' },
    { host: OTHER_REGISTRY, by: 'nobody' },
  ])
})

it('uses a credential in a run that works from the moment it is set until it is removed', async () => {
  const { asking, userCredentials, registry } = await aServiceOfTwo()
  const { untilItGets, stop } = await asking(alice, GET(REGISTRY))
  await untilItGets('nobody')

  await userCredentials.set(alice, 'registry', { host: REGISTRY, value: TOKENS.alice })
  await untilItGets('Bearer alice')
  await userCredentials.set(alice, 'registry', { host: REGISTRY, value: TOKENS.bob })
  await untilItGets('Bearer bob')
  await userCredentials.remove(alice, 'registry', { host: REGISTRY })
  const asked = registry.asked.length
  await untilItGets('nobody')
  const events = await stop()

  // A request that was under way when the credential was removed may have it, and no later one.
  expect(registry.asked.slice(asked + 1).filter(({ by }) => by !== 'nobody')).toEqual([])
  // Each value has its own id. Repeats of one are reported now and then, which is a matter of time.
  const used = dataOf(events, 'egress.credential_used').map(({ credentialId }) => credentialId)
  expect(new Set(used).size).toBe(2)
})

it('redacts a value in the events and results of its owner alone', async () => {
  const { run, userCredentials, store } = await aServiceOfTwo()
  await userCredentials.set(alice, 'registry', { host: REGISTRY, value: 'Common-Text-Of-Everybody-1' })
  // In two parts, so that the request itself does not have it.
  const print = 'a=Common-Text-Of; echo "$a-Everybody-1"; echo "$a-Everybody-1" > file'

  const own = await run(alice, print)
  const others = await run(bob, print)

  const patch = async (id: string) => {
    const bytes: Uint8Array[] = []
    for await (const chunk of (await store.readBlob(id, 'patch'))?.chunks ?? []) bytes.push(chunk)
    return Buffer.concat(bytes).toString()
  }
  expect(JSON.stringify(own.events)).not.toContain('Common-Text-Of-Everybody-1')
  expect(JSON.stringify(own.events)).toContain('REDACTED')
  expect(JSON.stringify(others.events)).toContain('Common-Text-Of-Everybody-1')
  expect([await patch(own.id), await patch(others.id)]).toEqual([
    expect.not.stringContaining('Common-Text-Of-Everybody-1'),
    expect.stringContaining('Common-Text-Of-Everybody-1'),
  ])
})

it('calls the model with the key of the owner, and with the one of the operator for others', async () => {
  const model = await startModelServer({
    respond: ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: 'Done.' }
        : { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] },
  })
  onTestFinished(() => model.close())
  const { service, userCredentials, eventsOf, aWorkspace } = await aServiceOfTwo({
    env: { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: TOKENS.operator },
  })
  const set = await userCredentials.set(alice, 'openai-compatible', { value: TOKENS.alice })
  const agent = { kind: 'openaiCompatible', model: 'any-model' } as const
  const ask = async (caller: Caller) => {
    const { id } = await service.startRun(caller, { ...aRun(aWorkspace(caller.owner), []), agent })
    const events = await eventsOf(caller, id)
    return {
      used: dataOf(events, 'egress.credential_used')[0],
      key: model.requests.at(-1)?.headers['authorization'],
    }
  }

  expect(set.target).toBe(model.url)
  expect(await ask(alice)).toMatchObject({
    used: { credentialId: set.credentialId },
    key: `Bearer ${TOKENS.alice}`,
  })
  expect(await ask(bob)).toMatchObject({
    used: { credentialId: 'model-key' },
    key: `Bearer ${TOKENS.operator}`,
  })
})

it('asks GitHub through the proxy whether it accepts a token, and stores none that it refuses', async () => {
  const { userCredentials, api, store } = await aServiceOfTwo()

  const accepted = await userCredentials.set(alice, 'github', { value: TOKENS.alice })
  const refused = userCredentials.set(bob, 'github', { value: 'ghp_aTokenThatGitHubDoesNotKnow000000001' })

  await expect(refused).rejects.toMatchObject({
    code: 'invalid_request',
    message: 'GitHub does not accept this value: 401 Unauthorized. Nothing was stored.',
  })
  expect(accepted.unchecked).toBeUndefined()
  expect(api.asked).toEqual([
    'GET api.github.com/rate_limit Bearer alice',
    'GET api.github.com/rate_limit other',
  ])
  expect((await store.listUserCredentials()).map(({ owner }) => owner)).toEqual(['alice'])
})

it('stores a value unchecked, and says why, if its server cannot be asked or the ceiling forbids it', async () => {
  const away = await aServiceOfTwo({ hasGitHubApi: false })
  const narrow = await aServiceOfTwo({ ceiling: `network_enabled: true\negress_hosts: [${REGISTRY}]\n` })
  const value = TOKENS.alice

  const unreached = await away.userCredentials.set(alice, 'github', { value })
  const forbidden = await narrow.userCredentials.set(alice, 'github', { value })
  const registry = await narrow.userCredentials.set(alice, 'registry', { host: REGISTRY, value })

  expect(unreached.unchecked).toMatch(/^the egress proxy did not let the request pass: /)
  expect(forbidden.unchecked).toBe('the ceiling of this service does not allow api.github.com (egress_hosts)')
  expect(registry.unchecked).toBe('registries have no common request for it')
  expect(narrow.api.asked).toEqual([])
})

it('asks the model server whether it accepts a key', async () => {
  let status = 401
  const asked: unknown[] = []
  const server = createServer((request, response) => {
    asked.push([request.method, request.url, request.headers.authorization])
    response.writeHead(status).end('{}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const { userCredentials } = await aServiceOfTwo({ env: { OPENAI_BASE_URL: url } })
  const set = () => userCredentials.set(alice, 'openai-compatible', { value: TOKENS.alice })

  await expect(set()).rejects.toThrow(
    `The model server at ${url} does not accept this value: 401 Unauthorized.`,
  )
  expect(await userCredentials.list(alice)).toEqual({ items: [] })
  status = 404
  expect(await set()).toMatchObject({ unchecked: 'its server answered 404 Not Found' })
  status = 200
  expect((await set()).unchecked).toBeUndefined()
  expect(asked).toEqual(Array(3).fill(['GET', '/v1/models', `Bearer ${TOKENS.alice}`]))
})

it('refuses a run whose repository needs a token that its owner has not set, before it exists', async () => {
  const { service, userCredentials } = await aServiceOfTwo({ github: 'credential: github,' })
  const workspace = { kind: 'git', url: 'https://github.com/team/app' } as const
  const start = (caller: Caller) =>
    service.startRun(caller, { ...aRun('/', []), workspace, policy: { network_enabled: true } })
  await userCredentials.set(alice, 'github', { value: TOKENS.alice })

  await expect(start(bob)).rejects.toMatchObject({
    code: 'workspace_invalid',
    message:
      'The repository https://github.com/team/app is cloned with your own credential, which you have not set: agentweaver credential set github',
  })
  expect((await service.listRuns(bob, { kind: 'agent', limit: 10 })).items).toEqual([])
  expect((await start(alice)).workspace).toMatchObject(workspace)
})

it('refuses agents whose model needs a credential that their owner has not set', async () => {
  const { service, userCredentials, aWorkspace } = await aServiceOfTwo({
    env: { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', AGENTWEAVER_MODEL_CREDENTIAL: 'openai-compatible' },
  })
  const start = (kind: 'copilot' | 'openaiCompatible') =>
    service.startRun(alice, { ...aRun(aWorkspace(kind), []), agent: { kind, model: 'any' } })

  await expect(start('copilot')).rejects.toThrow(/set yours with "agentweaver credential set github"/)
  await expect(start('openaiCompatible')).rejects.toThrow(
    'needs your key of http://127.0.0.1:9/v1: set it with "agentweaver credential set openai-compatible"',
  )
  expect((await service.listRuns(alice, { kind: 'agent', limit: 10 })).items).toEqual([])
  await userCredentials.set(alice, 'github', { value: TOKENS.alice })
  await userCredentials.set(alice, 'openai-compatible', { value: TOKENS.alice })

  const { id } = await start('openaiCompatible')
  expect((await service.cancel(alice, id)).id).toBe(id)
})
