import { describe } from 'vitest'
import { testAudit } from './audit.suite.ts'
import { testBlobs } from './blobs.suite.ts'
import { testContents } from './contents.suite.ts'
import { testCredentialChecks } from './credential-checks.suite.ts'
import { testErasure } from './erasure.suite.ts'
import { testEvents } from './events.suite.ts'
import { testFigures } from './figures.suite.ts'
import { testHolders } from './holders.suite.ts'
import { testProcesses } from './processes.suite.ts'
import { testQueue } from './queue.suite.ts'
import { testReservations } from './reservations.suite.ts'
import { testRestrictions } from './restrictions.suite.ts'
import { testRuns } from './runs.suite.ts'
import { testService } from './service.suite.ts'
import type { StoreUnderTest } from './store-under-test.ts'
import { testTrustedFolders } from './trusted-folders.suite.ts'
import { testWork } from './work.suite.ts'

/** Tests the whole contract of a store, for any engine. */
export function testStore(engine: StoreUnderTest): void {
  describe(`a store on ${engine.engine}`, () => {
    testRuns(engine)
    testEvents(engine)
    testFigures(engine)
    testWork(engine)
    testService(engine)
    testTrustedFolders(engine)
    testReservations(engine)
    testRestrictions(engine)
    testCredentialChecks(engine)
    testAudit(engine)
    testBlobs(engine)
    testContents(engine)
    testErasure(engine)
    testProcesses(engine)
    testHolders(engine)
    testQueue(engine)
  })
}
