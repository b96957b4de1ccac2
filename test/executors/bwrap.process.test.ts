import { bwrapBackend } from '../../runtime/executors/bwrap.ts'
import { isRoot } from '../../runtime/executors/host.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { testExecutor } from '../conformance/executor.ts'
import { ANY_FOLDER, LOCAL_ISOLATION, TOOL_ROOTS } from '../conformance/executor-cases/subject.ts'

const detection = await bwrapBackend.detect({ toolRoots: TOOL_ROOTS })

testExecutor({
  name: 'linux-bwrap',
  create: (workspace) =>
    bwrapBackend.create({ workspace, toolRoots: TOOL_ROOTS, hostRoots: ANY_FOLDER, log: silentLog }),
  supports: { ...LOCAL_ISOLATION, syscallFilter: true, processLimit: !isRoot() },
  missing: detection.ok ? undefined : detection.reason,
})
