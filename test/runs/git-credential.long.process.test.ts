import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { gitService, HOST, RUNS_PUSH, TOKEN } from './git-rig.ts'
import { alice, aRun, dataOf, follow, shell } from './service-rig.ts'

/** A service whose runs may use one repository of a git server, with a token that only the service can read. */
async function aPlace() {
  const started = await gitService({ ceiling: RUNS_PUSH })
  const run = async (commands: readonly string[]) => {
    const path = started.aWorkspace()
    const steps = commands.map((command) => shell(command.replaceAll('URL', started.server.url)))
    const { id } = await started.service.startRun(alice, {
      ...aRun(path, steps),
      policy: { network_enabled: true },
    })
    const events = await follow(started.service, id)
    return { id, events, results: dataOf(events, 'tool.result').map((data) => JSON.stringify(data)) }
  }
  return { ...started, run }
}

const COMMIT = 'git -c user.name=a -c user.email=none commit -q --allow-empty -m work'
const PUSH = 'git push -q origin "HEAD:refs/heads/${AGENTWEAVER_BRANCH_PREFIX}fix"'
/** The canary in two parts, so that no process has all of it in its arguments. The file shows that the search finds it. */
const SEARCH = `printf '%s%s' ${TOKEN.slice(0, 20)} ${TOKEN.slice(20)} > /tmp/control; grep -rlaF -f /tmp/control . /tmp /home /root /etc /run /agentweaver /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null`

it('clones and pushes with a token that is nowhere in the sandbox', async () => {
  const { run, server, store, config } = await aPlace()

  const { id, events, results } = await run([
    `git clone -q URL/team/app.git && cat app/README && cd app && ${COMMIT} && ${PUSH} && ${COMMIT} && ${PUSH}; echo "exit $?"; printf %s "$GIT_TOKEN" | wc -c; ${SEARCH}`,
  ])

  const [result = ''] = results
  expect(result).toContain(`from team/app\\nexit 0\\n${TOKEN.length}\\n/tmp/control\\n`)
  expect(server.refs('team/app')).toEqual([`refs/heads/agentweaver/${id}/fix`, 'refs/heads/main'])
  expect(server.requests.filter(({ isAuthorized }) => !isAuthorized)).toEqual([])
  expect(dataOf(events, 'egress.credential_used')[0]).toEqual({ credentialId: 'git', host: HOST, count: 1 })
  // Otherwise the redactor would have hidden it.
  expect(JSON.stringify(events)).not.toContain('REDACTED')
  expect(JSON.stringify(await store.readAudit({ runId: id, limit: 100 }))).not.toContain(TOKEN)
  expect(filesWith(config.stateDir, TOKEN)).toEqual([])
})

it('refuses pushes to other branches, other repositories and other credentials in words', async () => {
  const { run, server } = await aPlace()
  const pushTo = (...refs: string[]) =>
    refs.map((ref) => `git push origin ${ref} 2>&1; echo "exit $?"`).join(';')

  const { results, events } = await run([
    `git clone -q URL/team/app.git && cd app && ${COMMIT} && git tag v1; ${pushTo('HEAD:refs/heads/main', 'HEAD:refs/heads/agentweaver/run_other/fix', 'v1')}`,
    'git clone -q URL/team/other.git 2>&1; echo "exit $?"',
    'curl -s -H "Authorization: Bearer $GIT_TOKEN" URL/api/user; curl -s -H "Authorization: Bearer mine" "URL/team/app.git/info/refs?service=git-upload-pack"',
  ])

  const [pushes = '', clone = '', requests = ''] = results
  expect(pushes.match(/remote: agentweaver: The push is refused: this run may push only to/g)).toHaveLength(3)
  expect(pushes.match(/exit 1/g)).toHaveLength(3)
  expect(server.refs('team/app')).toEqual(['refs/heads/main'])
  expect(clone).toMatch(/refused.*exit 128/)
  expect(requests).toContain('the path')
  expect(requests).toContain('accepts no other credential')
  expect(server.requests.filter(({ url }) => !url.startsWith('/team/app'))).toEqual([])
  expect(dataOf(events, 'egress.denied')).toContainEqual(
    expect.objectContaining({ rule: 'push', host: HOST, count: 1 }),
  )
})

function filesWith(folder: string, text: string): string[] {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  return names
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(text))
}
