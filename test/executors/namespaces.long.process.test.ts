import { hasNamespacedPidMax, isRoot } from '../../runtime/executors/host.ts'
import { namespacesBackend } from '../../runtime/executors/namespaces.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { testExecutor } from '../conformance/executor.ts'
import { ANY_FOLDER, LOCAL_ISOLATION, TOOL_ROOTS } from '../conformance/executor-cases/subject.ts'

const detection = await namespacesBackend.detect({ toolRoots: TOOL_ROOTS })

testExecutor({
  name: 'linux-namespaces',
  create: (workspace) =>
    namespacesBackend.create({ workspace, toolRoots: TOOL_ROOTS, hostRoots: ANY_FOLDER, log: silentLog }),
  supports: { ...LOCAL_ISOLATION, syscallFilter: true, processLimit: !isRoot() || hasNamespacedPidMax() },
  missing: detection.ok ? undefined : detection.reason,
})
