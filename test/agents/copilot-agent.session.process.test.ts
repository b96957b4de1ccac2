import { spawn } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { textOf } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { aModel, anAgent, aStateDir, endpoint, runTurn } from './agent-rig.ts'
import { childPids, isRunning } from './children.ts'

describe('a session of the Copilot agent', () => {
  it('continues in another process from its exported files', async () => {
    const server = await aModel((_request, index) => ({ text: `answer ${index + 1}` }))
    const first = await anAgent(endpoint(server))
    await runTurn(first.agent, 'remember the word heron')
    const sessionFiles = await first.agent.exportSession()
    await first.agent.close()

    const second = await anAgent(endpoint(server), { sessionFiles })
    const { result } = await runTurn(second.agent, 'which word?')

    expect(result).toEqual({ state: 'completed' })
    const told = server.requests[1]?.messages.map((message) => textOf(message)) ?? []
    expect(told.some((text) => text.includes('remember the word heron'))).toBe(true)
    expect(told).toContain('answer 1')
    expect(told.at(-1)).toContain('which word?')
    expect(await second.agent.exportSession()).not.toEqual(sessionFiles)
  })

  it('leaves nothing of the conversation on disk', async () => {
    const stateDir = await aStateDir()
    const server = await aModel(() => ({ text: 'a secret answer' }))
    const { agent } = await anAgent(endpoint(server), { stateDir })

    await runTurn(agent, 'a secret question')
    await agent.close()

    const files = (await readdir(stateDir, { recursive: true, withFileTypes: true })).filter((entry) =>
      entry.isFile(),
    )
    const texts = await Promise.all(files.map((file) => readFile(join(file.parentPath, file.name), 'utf8')))
    expect(texts.join('\n')).not.toContain('secret')
  })

  it.each([
    ['without its metadata', new Map([['files/events.jsonl', new Uint8Array()]])],
    ['of another kind', new Map([['session.json', Buffer.from('{"kind":"scripted","turn":1}')]])],
    ['that is damaged', new Map([['session.json', Buffer.from('{"kind":')]])],
  ])('rejects a session %s', async (_what, sessionFiles) => {
    const server = await aModel(() => ({ text: 'never asked' }))

    await expect(anAgent(endpoint(server), { sessionFiles })).rejects.toMatchObject({
      code: 'configure_failed',
    })
  })
})

describe('the process of the agent runtime', () => {
  it('has none of our environment variables and ends when the agent is closed', async () => {
    process.env['PLANTED_HOST_SECRET'] = 'hunter2-of-the-host'
    const before = await childPids()
    const server = await aModel(() => ({ text: 'hello' }))
    const { agent } = await anAgent(endpoint(server))
    await runTurn(agent)
    const own = (await childPids()).filter((pid) => !before.includes(pid))

    const environment = await readFile(`/proc/${own[0]}/environ`, 'utf8')
    const commandLine = await readFile(`/proc/${own[0]}/cmdline`, 'utf8')
    await agent.close()

    expect(own).toHaveLength(1)
    const keys = environment.split('\0').map((line) => line.split('=')[0])
    expect(keys.filter((key) => key !== '').toSorted()).toEqual([
      'COPILOT_DISABLE_KEYTAR',
      'COPILOT_HOME',
      'HOME',
      'TMPDIR',
    ])
    expect(`${environment}${commandLine}`).not.toMatch(/hunter2|secret-key-of-the-endpoint/)
    expect(await childPids()).toEqual(before)
  })

  it('ends with its host, even if the host is killed', async () => {
    const server = await aModel(() => ({ hang: true }))
    const standIn = fileURLToPath(new URL('./agent-host-stand-in.ts', import.meta.url))
    const host = spawn(process.execPath, [standIn, server.url, await aStateDir()], { stdio: 'ignore' })
    await until('the model is asked', () => server.requests.length > 0)
    const pids = await childPids(host.pid)

    host.kill('SIGKILL')

    expect(pids).toHaveLength(1)
    await until('the agent runtime ends', async () => !(await isRunning(pids[0] ?? 0)))
  })
})
