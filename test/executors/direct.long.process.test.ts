import { directBackend } from '../../runtime/executors/direct.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { testExecutor } from '../conformance/executor.ts'
import { TOOL_ROOTS } from '../conformance/executor-cases/subject.ts'

testExecutor({
  name: 'direct',
  create: (workspace) => directBackend.create({ workspace, toolRoots: TOOL_ROOTS, log: silentLog }),
  supports: {
    isolation: false,
    ownRoot: false,
    ownNetwork: false,
    enforcesEgress: false,
    syscallFilter: false,
    endsForeignCalls: false,
    processLimit: false,
    rawOutput: true,
  },
})
