import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { HostState } from '../../contracts/configure.ts'

/**
 * Collects the garbage of start-up and warm-up in standby, when no caller waits: it frees 8 MB of resident memory for
 * about 20 ms of CPU. Compiled code is kept.
 */
export async function collectInStandby(state: HostState, collector = v8Collector): Promise<void> {
  if (state !== 'standby') return
  await collector()({ type: 'major', execution: 'async', flavor: 'last-resort' })
}

/** Enables `gc` at run time: with `--expose-gc` on the command line, Node recompiles its own modules (9 ms per start). */
function v8Collector(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  try {
    return runInNewContext('gc')
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}
