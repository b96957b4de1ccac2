import type { IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import type { Caller } from '../../runtime/api/runs/service.ts'
import type { GitServer } from '../fakes/git-server.ts'
import { aServiceOfTwo, filesWith, GITLAB, TOKENS } from './own-credentials-rig.ts'
import { alice, aRun, bob, dataOf } from './service-rig.ts'

const CLONE = `git clone -q https://${GITLAB}/team/app.git app 2>&1 && cat app/README; echo "exit $?"`
const COMMIT = 'git -c user.name=a -c user.email=none commit -q --allow-empty -m work'
/** The canary in two parts, so that no process has all of it in its arguments. The file shows that the search finds it. */
const SEARCH = `printf '%s%s' ${TOKENS.alice.slice(0, 20)} ${TOKENS.alice.slice(20)} > /tmp/control; grep -rlaF -f /tmp/control . /tmp /home /root /etc /run /agentweaver /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null`

const basicOf = ({ headers: { authorization = '' } }: IncomingMessage): string =>
  Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString()

/** What the server gets as user and password. */
function credentialsAt(server: GitServer): string[] {
  const got: string[] = []
  server.intercept = (request) => {
    got.push(basicOf(request))
    return false
  }
  return got
}

it('clones and pushes at a git server with the token of the owner, which is nowhere in the sandbox', async () => {
  const { run, gitlab, git, userCredentials, store, config } = await aServiceOfTwo({ gitlab: '' })
  const got = credentialsAt(gitlab)
  const set = await userCredentials.set(alice, 'git', { host: GITLAB, value: TOKENS.alice, user: 'oauth2' })
  // The check asks without a credential, too.
  got.length = 0

  const own = await run(
    alice,
    `${CLONE}; cd app && ${COMMIT} && git push -q origin "HEAD:refs/heads/\${AGENTWEAVER_BRANCH_PREFIX}fix"; echo "push $?"; ${SEARCH}`,
    'git clone -q https://github.com/team/app.git other 2>&1; echo "exit $?"',
  )
  const ofAlice = got.splice(0)
  const others = await run(bob, CLONE)

  expect(own.results[0]).toContain('from team/app\\nexit 0\\npush 0\\n/tmp/control\\n')
  expect(gitlab.refs('team/app')).toContain(`refs/heads/agentweaver/${own.id}/fix`)
  expect(new Set(ofAlice)).toEqual(new Set([`oauth2:${TOKENS.alice}`]))
  expect(dataOf(own.events, 'egress.credential_used')[0]).toMatchObject({
    credentialId: set.credentialId,
    host: GITLAB,
  })
  // Neither another host nor another owner gets it.
  expect(own.results[1]).toContain('exit 128')
  expect(git.requests.filter(({ isAuthorized }) => isAuthorized)).toEqual([])
  expect(others.results[0]).toContain('exit 128')
  expect(new Set(got)).toEqual(new Set(['']))
  expect(JSON.stringify(own.events)).not.toContain('REDACTED')
  expect(JSON.stringify(await store.readAudit({ limit: 100 }))).not.toContain(TOKENS.alice)
  expect(filesWith(config.stateDir, TOKENS.alice)).toEqual([])
  expect(filesWith(config.stateDir, set.fingerprint)).not.toEqual([])
})

it('permits with it what the entry and the run permit, and drops another credential of the sandbox', async () => {
  const { run, gitlab, userCredentials } = await aServiceOfTwo({ gitlab: '' })
  const got = credentialsAt(gitlab)
  await userCredentials.set(alice, 'git', { host: GITLAB, value: TOKENS.alice })
  got.length = 0

  const { results, events } = await run(
    alice,
    `${CLONE}; cd app && ${COMMIT}; git push origin HEAD:refs/heads/main 2>&1; echo "exit $?"`,
    `curl -s https://${GITLAB}/api/v4/user; curl -s "https://${GITLAB}/team/other.git/info/refs?service=git-upload-pack"`,
    `curl -s -o /dev/null -w '%{http_code}' -u mine:of-the-agent "https://${GITLAB}/team/app.git/info/refs?service=git-upload-pack"`,
  )

  expect(results[0]).toMatch(/exit 0.*The push is refused: this run may push only to.*exit 1/)
  expect(gitlab.refs('team/app')).toEqual(['refs/heads/main'])
  expect(results[1]).toContain('the path')
  expect(gitlab.requests.filter(({ url }) => !url.startsWith('/team/app'))).toEqual([])
  expect(dataOf(events, 'egress.denied')).toContainEqual(expect.objectContaining({ rule: 'push' }))
  expect(results[2]).toContain('200')
  // The user that most servers ignore.
  expect(new Set(got)).toEqual(new Set([`x-access-token:${TOKENS.alice}`]))
})

it('refuses a run that needs a token which its owner has not set, before it exists', async () => {
  const { service, userCredentials } = await aServiceOfTwo({ gitlab: 'credential: own-git,' })
  const workspace = { kind: 'git', url: `https://${GITLAB}/team/app` } as const
  const start = (caller: Caller) =>
    service.startRun(caller, { ...aRun('/', []), workspace, policy: { network_enabled: true } })
  await userCredentials.set(alice, 'git', { host: GITLAB, value: TOKENS.alice })

  await expect(start(bob)).rejects.toMatchObject({
    code: 'workspace_invalid',
    message: `The repository https://${GITLAB}/team/app is cloned with your own credential, which you have not set: agentweaver credential set git --host ${GITLAB}`,
  })
  expect((await service.listRuns(bob, { kind: 'agent', limit: 10 })).items).toEqual([])
  expect((await start(alice)).workspace).toMatchObject(workspace)
})

it('does not take the credential git of an operator for the one of an owner', async () => {
  const { run, gitlab, userCredentials } = await aServiceOfTwo({
    gitlab: 'credential: git,',
    operatorsToken: true,
  })
  const got = credentialsAt(gitlab)
  const passwords = () => new Set(got.splice(0).map((text) => text.split(':')[1]))

  const before = await run(bob, `${CLONE}; printf %s "$LAB_TOKEN" | wc -c`)
  expect(before.results[0]).toContain(`exit 0\\n${TOKENS.operator.length}`)
  expect(dataOf(before.events, 'egress.credential_used')[0]).toMatchObject({ credentialId: 'git' })
  expect(passwords()).toEqual(new Set([TOKENS.operator]))

  const { credentialId } = await userCredentials.set(alice, 'git', { host: GITLAB, value: TOKENS.alice })
  got.length = 0
  const own = await run(alice, CLONE)
  expect(own.results[0]).toContain('exit 0')
  expect(dataOf(own.events, 'egress.credential_used')[0]).toMatchObject({ credentialId })
  expect(passwords()).toEqual(new Set([TOKENS.alice]))
})

it('does not start with the credential git in an entry that the operator’s list does not have', async () => {
  await expect(aServiceOfTwo({ gitlab: 'credential: git,' })).rejects.toThrow(
    /names the credential git, which AGENTWEAVER_CREDENTIALS_FILE does not list/,
  )
})

it('asks the git server whether it accepts a token, and stores none that it refuses unless a person wants it', async () => {
  const { userCredentials, gitlab, store } = await aServiceOfTwo({ gitlab: '' })
  const got = credentialsAt(gitlab)
  const set = (value: string, more = {}) =>
    userCredentials.set(alice, 'git', { host: GITLAB, value, ...more })
  const wrong = 'glpat-aTokenThatTheServerDoesNotKnow1'

  await expect(set(wrong)).rejects.toMatchObject({
    code: 'invalid_request',
    message: `The git server ${GITLAB} does not accept this value: 401 Unauthorized. Nothing was stored.`,
  })
  expect(await store.listUserCredentials()).toEqual([])
  expect((await set(TOKENS.alice, { user: 'oauth2' })).unchecked).toBeUndefined()
  expect(got).toEqual(['', `x-access-token:${wrong}`, '', `oauth2:${TOKENS.alice}`])
  expect(new Set(gitlab.requests.map(({ method, url }) => `${method} ${url}`))).toEqual(
    new Set(['GET /team/app.git/info/refs?service=git-upload-pack']),
  )
  const asked = got.length
  expect((await set(wrong, { check: false })).unchecked).toBe('you asked to store it without a check')
  expect(got).toHaveLength(asked)
})

it('says that a repository which everybody may read shows nothing about a token', async () => {
  const { userCredentials, gitlab } = await aServiceOfTwo({ gitlab: '' })
  gitlab.intercept = (_request, response) => {
    response.end('refs')
    return true
  }

  const { unchecked } = await userCredentials.set(alice, 'git', { host: GITLAB, value: TOKENS.bob })

  expect(unchecked).toBe('everybody may read /team/app.git there')
})
