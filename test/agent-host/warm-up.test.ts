import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { ConfigureRequest } from '../../contracts/configure.ts'
import { assets } from '../../runtime/agent-host/assets.ts'
import { createRunSession, type SessionDeps } from '../../runtime/agent-host/session/run-session.ts'
import { warmUp } from '../../runtime/agent-host/warm-up.ts'
import { loadShellGrammar } from '../../runtime/governance/shell/grammar.ts'

async function startWarmUp(create = createRunSession) {
  const stateDir = mkdtempSync(join(tmpdir(), 'aw-warm-up-'))
  onTestFinished(() => rmSync(stateDir, { recursive: true, force: true }))
  const shell = await loadShellGrammar(await assets.grammarModules())
  const parts = { policy: assets.agentPolicy(), shell, stateDir }
  return { stateDir, done: warmUp({ ...parts, createRunSession: create }) }
}

test('runs a turn with a message and a released tool call', async () => {
  const seen: { request: ConfigureRequest; deps: SessionDeps }[] = []

  const { stateDir, done } = await startWarmUp(async (request, deps) => {
    seen.push({ request, deps })
    return createRunSession(request, deps)
  })
  await done

  const [{ request, deps } = {}] = seen
  expect(request).toMatchObject({ credential: { kind: 'none' }, agent: { kind: 'scripted' } })
  const types: string[] = []
  for await (const { event } of deps?.outbox.follow(0, new AbortController().signal) ?? [])
    types.push(event.type)
  expect([...new Set(types)]).toEqual([
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

test('has no runner, credential or environment, and a new bearer token each time', async () => {
  const bearers = new Set<string>()
  const watch: typeof createRunSession = async (request, deps) => {
    bearers.add(request.turnBearerToken)
    expect(deps.azure).toBeUndefined()
    expect(deps.runtimeEnv).toEqual({})
    await expect(deps.toolbox.file({ op: 'stat', path: '.' })).rejects.toThrow('no runner')
    return createRunSession(request, deps)
  }

  await (await startWarmUp(watch)).done
  await (await startWarmUp(watch)).done

  expect(bearers.size).toBe(2)
})
