import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CopilotClient, RuntimeConnection } from '@github/copilot-sdk'
import { describe, expect, it } from 'vitest'
import { type ModelServer, textOf } from '../fakes/model-server.ts'
import { until } from '../helpers/until.ts'
import { aModel, anAgent, aStateDir, endpoint, runTurn } from './agent-rig.ts'
import { PLANTED_FILES } from './planted-files.ts'

async function aPlantedFolder() {
  const folder = await aStateDir()
  for (const [path, text] of Object.entries(PLANTED_FILES)) {
    await mkdir(join(folder, path, '..'), { recursive: true })
    await writeFile(join(folder, path), text.replaceAll('MARKER', join(folder, 'planted-ran')))
  }
  return { folder, hasRun: async () => (await readdir(folder)).includes('planted-ran') }
}

/** The model's request without its time. */
const askedOf = (server: ModelServer) =>
  server.requests.map(({ tools, messages }) => ({
    tools,
    texts: messages.map((message) =>
      textOf(message).replace(/<current_datetime>.*?<\/current_datetime>/, ''),
    ),
  }))

describe('files planted by a repository', () => {
  it("have no effect, even in a parent folder of the agent runtime's folder", async () => {
    const { folder, hasRun } = await aPlantedFolder()
    const plain = await aModel(() => ({ text: 'hello' }))
    const planted = await aModel(() => ({ text: 'hello' }))

    await runTurn((await anAgent(endpoint(plain))).agent)
    await runTurn((await anAgent(endpoint(planted), { stateDir: folder })).agent)

    expect(askedOf(planted)).toHaveLength(1)
    expect(askedOf(planted)).toEqual(askedOf(plain))
    expect(await hasRun()).toBe(false)
  })

  it('would be executed by a runtime with that folder as its home (control)', async () => {
    const { folder, hasRun } = await aPlantedFolder()
    const server = await aModel(() => ({ text: 'hello' }))
    const client = new CopilotClient({
      mode: 'empty',
      useLoggedInUser: false,
      connection: RuntimeConnection.forStdio({ env: {} }),
      baseDirectory: folder,
      workingDirectory: folder,
      logLevel: 'none',
    })

    try {
      const session = await client.createSession({
        model: 'fake-model',
        provider: { type: 'openai', baseUrl: server.url },
        availableTools: ['custom:none'],
        onPermissionRequest: () => ({ kind: 'reject' }),
        enableFileHooks: false,
        enableConfigDiscovery: false,
      })
      await session.send({ prompt: 'hello' })
      await until('a planted command runs', hasRun)
    } finally {
      await client.stop()
    }

    expect(await hasRun()).toBe(true)
  })
})
