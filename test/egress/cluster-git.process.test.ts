import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { filesWith } from '../cluster/helpers/canary-search.ts'
import { until } from '../helpers/until.ts'
import { gitRig } from './cluster-credential-rig.ts'
import { CANARY, startBroker, startProxy } from './cluster-rig.ts'
import { authority, HOST } from './proxy-rig.ts'

const COMMIT = '-c user.name=a -c user.email=none commit -q --allow-empty -m work'.split(' ')

describe('git in a pod', () => {
  it('clones and pushes a private repository to a branch of its run, and to no other one', async () => {
    const { all, git, server } = await gitRig()

    await git(['clone', '-q', `${server.url}/team/app.git`, 'app'])
    const pushed: string[] = []
    for (const ref of [
      'refs/heads/agentweaver/RUN/fix',
      'refs/heads/agentweaver/RUN/fix',
      'refs/heads/main',
    ]) {
      await git(COMMIT, 'app')
      pushed.push(
        await git(['push', '-q', 'origin', `HEAD:${ref}`], 'app').catch(({ stderr }) => String(stderr)),
      )
    }

    expect(pushed).toEqual(['', '', expect.stringContaining('this run may push only to branches below')])
    expect(server.refs('team/app')).toEqual([`refs/heads/agentweaver/${all.runId}/fix`, 'refs/heads/main'])
    expect(server.requests.filter(({ isAuthorized }) => !isAuthorized)).toEqual([])
    expect(await filesWith([all.home], CANARY)).toEqual([])
    // The search finds the placeholder, so it would find the value too.
    expect(await filesWith([all.home], all.placeholder)).toEqual([join(all.home, 'control')])
  })
})

describe('git in a pod whose owner has set a credential of the server', () => {
  it('clones and pushes with it to a branch of its run, and to no other one, without a placeholder', async () => {
    const { all, git, server } = await gitRig({ owner: 'ada' })
    const users: string[] = []
    server.intercept = ({ headers: { authorization = '' } }) => {
      users.push(Buffer.from(authorization.replace('Basic ', ''), 'base64').toString())
      return false
    }

    await git(['clone', '-q', `${server.url}/team/app.git`, 'app'])
    await git(COMMIT, 'app')
    const push = (ref: string) =>
      git(['push', '-q', 'origin', `HEAD:${ref}`], 'app').catch(({ stderr }) => String(stderr))
    const pushed = [await push('refs/heads/agentweaver/RUN/fix'), await push('refs/heads/main')]

    expect(pushed).toEqual(['', expect.stringContaining('this run may push only to branches below')])
    expect(server.refs('team/app')).toEqual([`refs/heads/agentweaver/${all.runId}/fix`, 'refs/heads/main'])
    expect(new Set(users)).toEqual(new Set([`oauth2:${CANARY}`]))
    expect(all.placeholder).toBe('')
    expect(await filesWith([all.home], CANARY)).toEqual([])
  })
})

describe('git in a pod whose replica of the proxy has ended', () => {
  it('continues a branch through another replica, and no branch that the run did not push', async () => {
    const { all, git, server, through, bare } = await gitRig()
    const push = async (ref: string, ...options: string[]) => {
      await git(COMMIT, 'app')
      const args = ['push', '-q', ...options, 'origin', `HEAD:${ref}`]
      return git(args, 'app').catch(({ stderr }) => String(stderr))
    }
    await git(['clone', '-q', `${server.url}/team/app.git`, 'app'])
    expect(await push('refs/heads/agentweaver/RUN/fix')).toBe('')
    const ref = `refs/heads/agentweaver/${all.runId}/fix`
    await until('the push is stored', async () => (await all.store.listPushed(all.runId)).length > 0)
    const [pushed] = await all.store.listPushed(all.runId)
    expect(pushed).toMatchObject({ ref, repository: `${HOST}:${server.port}/team/app` })
    await all.replica.drain()
    await all.broker.drain()

    const other = await startProxy(all.deployment, all.control.url)
    const broker = await startBroker(all.deployment, all.control.url, { roots: [authority.certificate] })
    await until('both processes have a lease', () => other.lease.isHeld && broker.lease.isHeld)
    await through(other)

    expect(await push('refs/heads/agentweaver/RUN/fix')).toBe('')
    await until('the second push is stored', async () => {
      const [now] = await all.store.listPushed(all.runId)
      return now !== undefined && now.commit !== pushed?.commit
    })
    // Another client has moved the branch.
    execFileSync('git', ['update-ref', ref, 'main'], { cwd: bare })
    expect(await push('refs/heads/agentweaver/RUN/fix', '--force')).toContain(
      'has commits that this run did not push',
    )
  })
})
