import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import type { PlanStep } from '../../contracts/agents.ts'
import type { Place } from '../git/repository.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

const call = (tool: string, args: Record<string, unknown>): PlanStep => ({
  kind: 'tool',
  tool,
  arguments: args,
})

/** A service for all tests of a file. The command line knows its URL, so it uploads folders. */
export function useServiceAtUrl() {
  let state: string
  let service: OwnService

  beforeAll(async () => {
    state = await mkdtemp(join(tmpdir(), 'aw-upload-'))
    service = await startOwnService(state)
  })
  afterAll(async () => {
    await service?.stop()
    await untilQuiet(state)
    await rm(state, { recursive: true })
  })

  const envOf = () => ({ AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey })
  return {
    service: () => service,
    state: () => state,
    /** Uploads the project and runs a command there. `call` runs the command line with the same service. */
    async uploadAndRun(place: Place, command: string, more: readonly string[] = []) {
      const plan = join(place.folder, 'plan.json')
      const steps = [call('run_command', { command }), call('report_outcome', { outcome: 'succeeded' })]
      writeFileSync(plan, JSON.stringify({ turns: [steps] }))
      const argv = ['run', 'work', '-w', place.project, '--plan', plan, '--yes', ...more]
      const env = { ...envOf(), HOME: place.home, TMPDIR: place.folder }
      const run = await runCli(argv, { env })
      const id = /run_[0-9a-f]{32}/.exec(run.stderr)?.[0] ?? ''
      return {
        ...run,
        id,
        call: (...args: string[]) => runCli(args, { env: envOf(), cwd: place.folder }),
      }
    },
  }
}
