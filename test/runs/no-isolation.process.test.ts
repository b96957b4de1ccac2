import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { RunEnvelope } from '../../contracts/events.ts'
import { canAlterMachine, FORBID_NAMESPACES, onMachineWhere } from '../helpers/altered-machine.ts'
import { startServer } from './server-rig.ts'
import { dataOf, shell, tool } from './service-rig.ts'

describe.skipIf(!canAlterMachine)(
  `where nothing isolates${canAlterMachine ? '' : ' (skipped: no user namespaces here)'}`,
  () => {
    it('serves files, refuses every command with the reason, and says so before', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'aw-no-isolation-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const workspace = join(folder, 'workspace')
      mkdirSync(workspace)
      mkdirSync(join(folder, 'tmp'))
      const { client } = await startServer(folder, onMachineWhere(FORBID_NAMESPACES))

      const run = await client.startRun({
        task: 'try',
        workspace: { kind: 'path', path: workspace },
        agent: {
          kind: 'scripted',
          plan: {
            turns: [[tool('create', { path: 'a.txt', file_text: 'written\n' }), shell('echo ran > ran.txt')]],
          },
        },
      })
      const events: RunEnvelope[] = []
      for await (const envelope of client.streamEvents(run.id)) events.push(envelope)
      const sandbox = await client.createSandbox({})
      const command = client.startCommand(sandbox.id, { command: 'true' })

      await expect(command).rejects.toMatchObject({ code: 'policy_denied' })
      expect(readFileSync(join(workspace, 'a.txt'), 'utf8')).toBe('written\n')
      expect(dataOf(events, 'sandbox.selected')[0]).toMatchObject({
        backend: 'direct',
        isRealIsolation: false,
      })
      expect(dataOf(events, 'sandbox.warning')[0]).toMatchObject({ category: 'no-isolation' })
      expect(dataOf(events, 'tool.denied')[0]).toMatchObject({ tool: 'run_command', by: 'policy' })
      expect(() => readFileSync(join(workspace, 'ran.txt'))).toThrow('ENOENT')
      await client.destroySandbox(sandbox.id)
    })
  },
)
