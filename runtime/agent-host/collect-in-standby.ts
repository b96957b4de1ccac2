import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { HostState } from '../../contracts/configure.ts'

/**
 * What start and rehearsal left behind goes while nobody waits: 8 MB of what a warm pod keeps resident, for some 20 ms of a
 * processor. What a run needs stays compiled.
 */
export async function collectInStandby(state: HostState, collector = v8Collector): Promise<void> {
  if (state !== 'standby') return
  await collector()({ type: 'major', execution: 'async', flavor: 'last-resort' })
}

/** With `--expose-gc` on its command line Node compiles its own modules anew: 9 ms of every start. */
function v8Collector(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  try {
    return runInNewContext('gc')
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}
