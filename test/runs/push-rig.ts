import { execFileSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PlanStep } from '../../contracts/agents.ts'
import { StartCommand, type StartRunInput } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { until } from '../helpers/until.ts'
import { gitService } from './git-rig.ts'
import { alice, aRun, shell } from './service-rig.ts'

export const COMMIT = 'git -c user.name=a -c user.email=none commit -q'
export const WORK: readonly PlanStep[] = [
  shell(`echo more >> README && ${COMMIT} -am work && echo new > file`),
]

/** A service with a repository, and what tests do with both. */
export async function pushPlace(options: Parameters<typeof gitService>[0] = {}) {
  const place = await gitService(options)
  const { service, server, repositories } = place
  const bare = join(repositories, 'team/app.git')

  const followed = async (caller: Caller, id: string): Promise<RunEnvelope[]> => {
    const signal = AbortSignal.timeout(150_000)
    return Array.fromAsync((await service.subscribe(caller, id, { after: 0, signal })) ?? [])
  }
  return {
    ...place,
    /** Runs git in the repository of the server. */
    git: (...args: string[]) => execFileSync('git', args, { cwd: bare, encoding: 'utf8' }).trim(),
    /** A script of the server that decides about pushes. */
    onPush(script: string) {
      const file = join(bare, 'hooks/pre-receive')
      writeFileSync(file, `#!/bin/sh\n${script}\n`)
      chmodSync(file, 0o755)
    },
    async worked(
      steps: readonly PlanStep[] = WORK,
      { caller = alice, ...change }: Partial<StartRunInput> & { readonly caller?: Caller } = {},
    ) {
      const workspace = { kind: 'git', url: `${server.url}/team/app.git` } as const
      const request = { ...aRun('/', [...steps]), workspace, ...change }
      const { id } = await service.startRun(caller, request as never)
      return { id, events: await followed(caller, id) }
    },
    /** Runs a command in a sandbox, and returns what it printed. */
    async printed(caller: Caller, id: string, command: string): Promise<string> {
      const started = await service.startCommand(caller, id, StartCommand.parse({ command, network: true }))
      const { afterSequence, commandId } = started
      const of = async () =>
        (await service.readEvents(caller, id, { after: afterSequence, limit: 500 })).flatMap(({ event }) =>
          'commandId' in event.data && event.data.commandId === commandId ? [event] : [],
        )
      await until('the command ends', async () => (await of()).some(({ type }) => type === 'command.exited'))
      return (await of()).map(({ data }) => ('chunk' in data ? data.chunk : '')).join('')
    },
    reasonOf: async (work: Promise<unknown>): Promise<string> =>
      work.then(
        () => 'it succeeded',
        (error: Error) => error.message,
      ),
  }
}

export type PushPlace = Awaited<ReturnType<typeof pushPlace>>
