import { afterAll, beforeAll, describe } from 'vitest'
import { attackCases } from './executor-cases/attacks.ts'
import { directoryCases } from './executor-cases/directory.ts'
import { endingCases } from './executor-cases/endings.ts'
import { fileAccessCases } from './executor-cases/file-access.ts'
import { networkCases } from './executor-cases/network.ts'
import { shellCases } from './executor-cases/shell.ts'
import { stoppingCases } from './executor-cases/stopping.ts'
import { streamCases } from './executor-cases/streams.ts'
import { type ExecutorParts, Subject } from './executor-cases/subject.ts'
import { syscallCases } from './executor-cases/syscalls.ts'
import { workspaceLimitCases } from './executor-cases/workspace-limits.ts'

export interface ExecutorSuite extends ExecutorParts {
  readonly name: string
  /** Why this machine cannot run the suite. The suite is skipped, and its title contains the reason. */
  readonly missing?: string | undefined
}

/** The cases of every backend, and the cases of the additional guarantees of this backend. */
export function testExecutor({ name, missing, ...parts }: ExecutorSuite): void {
  const title = missing === undefined ? name : `${name} (skipped: ${missing})`
  describe.skipIf(missing !== undefined)(title, () => {
    const subject = new Subject(parts)
    beforeAll(() => subject.open())
    afterAll(() => subject.close())

    endingCases(subject)
    streamCases(subject)
    shellCases(subject)
    stoppingCases(subject)
    directoryCases(subject)
    fileAccessCases(subject)
    networkCases(subject)
    attackCases(subject)
    syscallCases(subject)
    workspaceLimitCases(subject)
  })
}
