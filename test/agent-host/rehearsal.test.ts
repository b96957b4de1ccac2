import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { ConfigureRequest } from '../../contracts/configure.ts'
import { assets } from '../../runtime/agent-host/assets.ts'
import { rehearse } from '../../runtime/agent-host/rehearsal.ts'
import { createRunSession, type SessionDeps } from '../../runtime/agent-host/session/run-session.ts'
import { loadShellGrammar } from '../../runtime/governance/shell/grammar.ts'

async function rehearsing(create = createRunSession) {
  const stateDir = mkdtempSync(join(tmpdir(), 'aw-rehearsal-'))
  onTestFinished(() => rmSync(stateDir, { recursive: true, force: true }))
  const shell = await loadShellGrammar(await assets.grammarModules())
  const parts = { policy: assets.agentPolicy(), shell, stateDir }
  return { stateDir, done: rehearse({ ...parts, createRunSession: create }) }
}

test('goes through a session, its words and a call that is released', async () => {
  const seen: { request: ConfigureRequest; deps: SessionDeps }[] = []

  const { stateDir, done } = await rehearsing(async (request, deps) => {
    seen.push({ request, deps })
    return createRunSession(request, deps)
  })
  await done

  const [{ request, deps } = {}] = seen
  expect(request).toMatchObject({ credential: { kind: 'none' }, agent: { kind: 'scripted' } })
  const told: string[] = []
  for await (const { event } of deps?.outbox.follow(0, new AbortController().signal) ?? [])
    told.push(event.type)
  expect([...new Set(told)]).toEqual([
    'turn.started',
    'agent.message.delta',
    'agent.message',
    'tool.call',
    'agent.intent',
    'tool.result',
    'turn.ended',
  ])
  expect(readdirSync(stateDir, { recursive: true })).toEqual(['agent'])
})

test('has neither a runner, nor a credential, nor the environment, and another bearer each time', async () => {
  const bearers = new Set<string>()
  const watch: typeof createRunSession = async (request, deps) => {
    bearers.add(request.turnBearerToken)
    expect(deps.azure).toBeUndefined()
    expect(deps.runtimeEnv).toEqual({})
    await expect(deps.toolbox.file({ op: 'stat', path: '.' })).rejects.toThrow('no runner')
    return createRunSession(request, deps)
  }

  await (await rehearsing(watch)).done
  await (await rehearsing(watch)).done

  expect(bearers.size).toBe(2)
})
